"""The benchmarks by name. Their modules are imported when asked for, so that listing them needs no torch."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grcl.data.pool import Pool
    from grcl.data.reading import Reading
    from grcl.data.split import Split
    from grcl.data.stream import Domain


@dataclass(frozen=True)
class Benchmark:
    """A module with `CLASSES`, `ORDER` (names of the domains, source first) and `pool(name, data, reading)`."""

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

    def pool(self, name: str, data: Path | None, reading: "Reading") -> "Pool":
        """All images of one domain, from the folder `data` where the benchmark is not embedded."""
        pool: Pool = import_module(self.module).pool(name, data, reading)
        return pool

    def domain(self, name: str, data: Path | None, reading: "Reading", split: "Split") -> "Domain":
        """One domain with the images that the split chooses."""
        from grcl.data.split import split_domain

        return split_domain(name, self.pool(name, data, reading), split)


BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark("mini", "grcl.benchmarks.mini", "five small domains of digits, embedded"),
        Benchmark("digits", "grcl.benchmarks.digits", "SynNum, MNIST, MNIST-M, USPS, SVHN"),
        Benchmark("office_caltech", "grcl.benchmarks.office_caltech", "DSLR, Amazon, WebCam, Caltech; 10 classes"),
        Benchmark("domainnet", "grcl.benchmarks.domainnet", "Clipart, Real, Infograph, Sketch, Painting; 345 classes"),
    )
}
