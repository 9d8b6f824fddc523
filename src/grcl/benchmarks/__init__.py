"""The benchmarks by name. Their modules are imported when asked for, so that listing them needs no torch."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import grcl.data.stream


@dataclass(frozen=True)
class Benchmark:
    """A module with `CLASSES`, `ORDER` (names of the domains, source first) and `load(data)`."""

    name: str
    module: str
    title: str

    def classes(self) -> tuple[str, ...]:
        """The names of the classes, by label."""
        classes: tuple[str, ...] = import_module(self.module).CLASSES
        return classes

    def order(self) -> tuple[str, ...]:
        """The names of the domains, source first."""
        order: tuple[str, ...] = import_module(self.module).ORDER
        return order

    def load_domains(self, data: Path | None = None) -> "dict[str, grcl.data.stream.Domain]":
        """The domains by name, from the folder `data` where the benchmark is not embedded."""
        domains: dict[str, grcl.data.stream.Domain] = import_module(self.module).load(data)
        return domains


BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (Benchmark("mini", "grcl.benchmarks.mini", "five small domains of digits, embedded"),)
}
