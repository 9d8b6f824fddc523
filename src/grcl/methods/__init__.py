"""All methods by name. A new method is one file and one line here."""

from grcl.methods.base import Method
from grcl.methods.grcl import Grcl
from grcl.methods.multi_task import MultiTask
from grcl.methods.source_continued import SourceContinued
from grcl.methods.source_only import SourceOnly

METHODS: dict[str, type[Method]] = {
    "source_only": SourceOnly,
    "source_continued": SourceContinued,
    "multi_task": MultiTask,
    "grcl": Grcl,
}

__all__ = ["METHODS", "Method"]
