"""torchvision from PyPI beside a CPU build of torch: its compiled part does not load, and its import then asks for two
operators that nobody has declared. Declared here they stay empty; what we use of torchvision and timm needs neither."""

from types import ModuleType

import torch

_MISSING = ("nms", "qnms")
_declared: list[torch.library.Library] = []  # a declaration lives as long as its library


def import_torchvision() -> ModuleType:
    """torchvision; to be called before anything that imports it, such as timm."""
    try:
        import torchvision
    except RuntimeError as error:
        if "operator torchvision::" not in str(error):
            raise
        _declare()
        import torchvision
    module: ModuleType = torchvision
    return module


def _declare() -> None:
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in _MISSING:
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(library)
