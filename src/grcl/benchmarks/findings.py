"""What was found of a benchmark's images: rows for tables, sentences for people, plain values for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

DOMAIN_COLUMNS = ("domain", "images", "classes", "missing", "empty", "unreadable", "duplicate groups")
SHOWN = 3  # examples in a sentence; to_json has them all


@dataclass(frozen=True)
class DomainFindings:
    """What there is of one domain."""

    name: str
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Readable images by side and class; the one side of a domain that comes unsplit is called `all`."""
    missing: tuple[str, ...] = ()
    """Files that a list names in vain."""
    empty: tuple[str, ...] = ()
    """Files of no bytes."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with each of the other files that hold no image."""
    duplicates: tuple[tuple[str, ...], ...] = ()
    """Groups of images that are the same to the last byte."""
    across: int = 0
    """How many of these groups have images on both sides."""
    problem: str = ""
    """Why nothing of the domain could be looked at."""
    note: str = ""
    expected: str = ""
    """The layout of its files."""

    @property
    def images(self) -> int:
        """All readable images."""
        return sum(sum(side.values()) for side in self.counts.values())

    @property
    def absent(self) -> tuple[str, ...]:
        """Classes without a readable image on some side."""
        sides = self.counts.values()
        return tuple(dict.fromkeys(name for side in sides for name, count in side.items() if not count))

    @property
    def is_whole(self) -> bool:
        """Whether a run would find all it needs; duplicates are told, but hinder no run."""
        return not (self.problem or self.absent or self.missing or self.empty or self.unreadable)

    def row(self) -> tuple[str, ...]:
        """The domain under DOMAIN_COLUMNS."""
        images = " + ".join(f"{sum(side.values()):,}" for side in self.counts.values())
        classes = len(next(iter(self.counts.values()), ())) - len(self.absent)
        faults = (self.missing, self.empty, self.unreadable, self.duplicates)
        return (self.name, images or "0", str(classes), *(f"{len(fault):,}" for fault in faults))

    def remarks(self) -> list[str]:
        """One sentence for each kind of finding."""
        found = [f"{self.name}: {text}" for text in (self.note, self.problem) if text]
        if self.absent:
            expected = f"; expected: {self.expected}" if self.expected else ""
            found.append(f"{self.name}: no images of {_some(self.absent)}{expected}")
        unreadable = [f"{name} {problem}" for name, problem in self.unreadable.items()]
        kinds = {"missing": self.missing, "empty": self.empty, "unreadable": unreadable}
        found += [f"{self.name}: {len(names):,} {kind}: {_some(names)}" for kind, names in kinds.items() if names]
        if self.duplicates:
            across = f", {self.across:,} of them in both training and test" if self.across else ""
            groups = [" = ".join(group) for group in self.duplicates]
            title = "group" if len(groups) == 1 else "groups"
            found.append(f"{self.name}: {len(groups):,} {title} of identical images{across}: {_some(groups)}")
        return found


@dataclass(frozen=True)
class Findings:
    """What there is of all domains of a benchmark."""

    benchmark: str
    domains: tuple[DomainFindings, ...]

    @property
    def is_whole(self) -> bool:
        """Whether a run would find all it needs."""
        return all(domain.is_whole for domain in self.domains)

    @property
    def class_columns(self) -> tuple[str, ...]:
        """The header of `class_rows`: every domain, or every side of it."""
        sides = [(domain.name, side) for domain in self.domains for side in domain.counts]
        return ("class", *(name if side == "all" else f"{name} {side}" for name, side in sides))

    def class_rows(self) -> list[tuple[str, ...]]:
        """Images of each class, one column per domain that could be looked at."""
        sides = [side for domain in self.domains for side in domain.counts.values()]
        classes = sides[0] if sides else ()
        return [(name, *(f"{side[name]:,}" for side in sides)) for name in classes]

    def domain_rows(self) -> list[tuple[str, ...]]:
        """One row per domain, under DOMAIN_COLUMNS."""
        return [domain.row() for domain in self.domains]

    def remarks(self) -> list[str]:
        """What is missing, damaged or there twice, as sentences."""
        return [remark for domain in self.domains for remark in domain.remarks()]

    def to_json(self) -> dict[str, Any]:
        """Everything found, as plain values."""
        domains = [asdict(domain) | {"images": domain.images, "is_whole": domain.is_whole} for domain in self.domains]
        return {"benchmark": self.benchmark, "is_whole": self.is_whole, "domains": domains}


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
