"""What the paper reports (arXiv 2007.12942, Tables 1 to 3), in percent: mean and standard deviation of five runs."""

from dataclasses import dataclass
from typing import NamedTuple


class Figure(NamedTuple):
    """One entry of the paper's Table 1."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class PaperResults:
    """One benchmark of the paper."""

    domains: int
    methods: dict[str, tuple[Figure, Figure]]
    """ACC and BWT by method."""
    memory: dict[int, float]
    """GRCL's ACC by the size of the memory."""
    epochs: dict[int, float]
    """GRCL's ACC by the epochs of every stage."""


def _methods(rows: dict[str, tuple[float, float, float, float]]) -> dict[str, tuple[Figure, Figure]]:
    return {name: (Figure(*row[:2]), Figure(*row[2:])) for name, row in rows.items()}


PAPER = {
    "digits": PaperResults(
        domains=5,
        methods=_methods(
            {
                "dann": (74.56, 0.14, -11.37, 0.09),
                "mcd": (76.46, 0.24, -10.90, 0.11),
                "dada": (77.30, 0.19, -11.40, 0.04),
                "cua": (82.12, 0.18, -6.10, 0.12),
                "gra": (84.10, 0.15, -0.93, 0.10),
                "grcl": (85.34, 0.10, -1.00, 0.03),
            }
        ),
        memory={256: 83.00, 512: 84.12, 1024: 85.34, 2048: 85.41},
        epochs={120: 80.10, 180: 83.46, 240: 85.34, 300: 85.38},
    ),
    "domainnet": PaperResults(
        domains=5,
        methods=_methods(
            {
                "dann": (30.18, 0.13, -10.27, 0.07),
                "mcd": (31.68, 0.20, -10.36, 0.15),
                "dada": (32.14, 0.14, -8.67, 0.09),
                "cua": (34.22, 0.16, -5.53, 0.14),
                "gra": (35.84, 0.19, -1.15, 0.16),
                "grcl": (37.74, 0.13, -0.67, 0.12),
            }
        ),
        memory={256: 33.28, 512: 35.75, 1024: 37.74, 2048: 37.83},
        epochs={120: 34.80, 180: 36.50, 240: 37.74, 300: 38.16},
    ),
    "office_caltech": PaperResults(
        domains=4,
        methods=_methods(
            {
                "dann": (81.78, 0.05, -8.75, 0.07),
                "mcd": (82.63, 0.13, -8.70, 0.12),
                "dada": (82.05, 0.03, -8.30, 0.05),
                "cua": (84.83, 0.10, -4.65, 0.08),
                "gra": (86.53, 0.11, -0.03, 0.03),
                "grcl": (87.23, 0.06, 0.05, 0.02),
            }
        ),
        memory={},
        epochs={120: 80.93, 180: 84.70, 240: 87.23, 300: 87.28},
    ),
}

# The order of the paper's Table 1, the baselines that it lacks in front.
ORDER = ("source_only", "source_continued", "multi_task", "dann", "mcd", "dada", "cua", "gra", "grcl", "grcl_plus")
