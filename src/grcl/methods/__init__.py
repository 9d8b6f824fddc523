"""All methods by name. A new method is one file and one line here."""

from grcl.methods.base import Method
from grcl.methods.cua import Cua
from grcl.methods.dada import Dada
from grcl.methods.dann import Dann
from grcl.methods.gra import Gra
from grcl.methods.grcl import Grcl
from grcl.methods.grcl_plus import GrclPlus
from grcl.methods.mcd import Mcd
from grcl.methods.multi_task import MultiTask
from grcl.methods.source_continued import SourceContinued
from grcl.methods.source_only import SourceOnly

METHODS: dict[str, type[Method]] = {
    "source_only": SourceOnly,
    "source_continued": SourceContinued,
    "multi_task": MultiTask,
    "dann": Dann,
    "mcd": Mcd,
    "dada": Dada,
    "cua": Cua,
    "gra": Gra,
    "grcl": Grcl,
    "grcl_plus": GrclPlus,
}

__all__ = ["METHODS", "Method"]
