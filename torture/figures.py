"""The figures of the last torture, in one line each, and as a table in the docs."""

import datetime
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from torture import kills, mutations

BEGIN, END = "<!-- torture begins -->", "<!-- torture ends -->"


@dataclass(frozen=True)
class Figures:
    """What came of it all."""

    kills: kills.Tally
    files: dict[str, mutations.Tally]
    seconds: float

    @property
    def all_files(self) -> mutations.Tally:
        """Every kind of file together."""
        counts: Counter[str] = Counter()
        for tally in self.files.values():
            counts.update(tally.counts)
        return mutations.Tally(counts, [crash for tally in self.files.values() for crash in tally.crashes])

    @property
    def is_bad(self) -> bool:
        """Whether anything was lost or crashed."""
        return bool(self.kills.lost or self.all_files.crashes)

    @property
    def summary(self) -> str:
        """All that went wrong, then the two lines that count."""
        wrong = [*self.kills.lost, *self.all_files.crashes]
        return "\n".join([*wrong, self.kills.sentence, self.all_files.sentence])

    def write(self, page: Path) -> None:
        """Put the tables between their marks."""
        text = page.read_text(encoding="utf-8")
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        page.write_text(f"{before}{BEGIN}\n{self._tables()}{END}{after}", encoding="utf-8")

    def _tables(self) -> str:
        today = datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat()
        words = " ".join(["python -m torture", *sys.argv[1:]])
        lines = [
            f"`{words}` on {today}, in {self.seconds / 60:.0f} minutes:",
            "",
            self.kills.sentence + ".",
            "",
            "| the kill fell | kills |",
            "|---|---:|",
            *(f"| {phase} | {count} |" for phase, count in self.kills.phases.most_common()),
            "",
            self.all_files.sentence + ".",
            "",
            "| file | tried | refused | noticed | crashed |",
            "|---|---:|---:|---:|---:|",
            *(_row(name, tally) for name, tally in self.files.items()),
        ]
        return "\n".join(lines) + "\n"


def _row(name: str, tally: mutations.Tally) -> str:
    counts = (tally.tried, *(tally.counts[kind] for kind in (mutations.REFUSED, mutations.NOTICED, mutations.CRASHED)))
    return f"| {name} | {' | '.join(map(str, counts))} |"
