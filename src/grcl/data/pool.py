"""All that is known of a domain before a split is drawn."""

from dataclasses import dataclass

from torch import Tensor

from grcl.data.images import Images
from grcl.shapes import Int


@dataclass(frozen=True)
class Pool:
    """The images of a domain in an order that every machine agrees on."""

    images: Images
    labels: Int[Tensor, " n"]
    fingerprint: str
    sides: tuple[Int[Tensor, " train"], Int[Tensor, " test"]] | None = None
    """Places of the official training and test images; None where the distribution has no such parts."""
    unique: Int[Tensor, " unique"] | None = None
    """Places of the images whose bytes no other image has; None if this is not known."""
    note: str = ""
    """What a reader of a table must know, such as that the images are re-created."""
    names: tuple[str, ...] = ()
    """The files of the images below their folder; none where they are no files."""
