"""Shape annotations. Tests check them with jaxtyping; without it they mean a plain tensor: torch alone is enough."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, UInt8
else:
    try:
        from jaxtyping import Bool, Float, Int, UInt8
    except ImportError:

        class _Shaped:
            def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
                return item[0]

        Bool = Float = Int = UInt8 = _Shaped

__all__ = ["Bool", "Float", "Int", "UInt8"]
