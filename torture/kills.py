"""Kill some work with SIGKILL at seeded moments, ask for it again until it is done, and compare what it leaves."""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torture.child import Child, start
from torture.victims import Victim

MOMENTS = ("anywhere", "anywhere", "anywhere", "writing", "at the end")
MOST_WOUNDS = 4  # of one trial: then it may end, so that as many kills fall early in a life as late
PATIENCE = 300.0  # seconds for one command; longer is a hang


@dataclass
class Tally:
    """How many kills hit, and what came of the runs that they hit."""

    tried: int = 0
    identical: int = 0
    lost: list[str] = field(default_factory=list)
    phases: Counter[str] = field(default_factory=Counter)

    @property
    def sentence(self) -> str:
        return (
            f"kills tried / results identical / lost = {self.tried} / {self.identical} / {self.tried - self.identical}"
        )


def torment(victims: Sequence[Victim], kills: int, seed: int, folder: Path, say: Callable[[str], None]) -> Tally:
    """Spread so many kills evenly over the victims."""
    tally = Tally()
    for place, victim in enumerate(victims):
        share = kills * (place + 1) // len(victims) - kills * place // len(victims)
        if share:
            Trials(victim, folder / victim.name, random.Random(f"{seed} {victim.name}"), tally).endure(share)
            say(f"{victim.name}: {tally.sentence}")
    return tally


class Trials:
    """One victim: its undisturbed outcome, and trials that are killed again and again."""

    def __init__(self, victim: Victim, folder: Path, chance: random.Random, tally: Tally) -> None:
        self.victim, self.folder, self.chance, self.tally = victim, folder, chance, tally
        folder.mkdir(parents=True)
        self.trial, self.wounds, self.place = 0, 0, folder / "undisturbed"
        self._finish(start(lambda: victim.prepare(folder), folder / "output.txt"))
        began, child = time.monotonic(), self._start()
        self._wait_for(child, lambda: victim.is_nearly_done(self.place))
        self.work = time.monotonic() - began
        self._finish(child)
        self.end = time.monotonic() - began - self.work
        self.expected = victim.outcome(self.place)

    def endure(self, kills: int) -> None:
        """Go on until so many kills have hit; every trial that was hit is then brought to its end and compared."""
        self._next_trial()
        while kills:
            child = self._start()
            if self._kill_at(self.chance.choice(MOMENTS), child):
                self.tally.phases[self.victim.phase(self.place)] += 1
                self.wounds, kills = self.wounds + 1, kills - 1
            if self.wounds == MOST_WOUNDS or child.code != -signal.SIGKILL:
                self._conclude(child)
                self._next_trial()
        if self.wounds:
            self._conclude(None)

    def _next_trial(self) -> None:
        self.trial, self.wounds = self.trial + 1, 0
        self.place = self.folder / f"trial-{self.trial}"

    def _start(self) -> Child:
        return start(lambda: self.victim.work(self.place), self.folder / "output.txt")

    def _kill_at(self, moment: str, child: Child) -> bool:
        """Wait for a moment and kill; tells whether that hit a live process."""
        if moment == "at the end":
            self._wait_for(child, lambda: self.victim.is_nearly_done(self.place))
            child.wait(time.monotonic() + self.chance.uniform(0, self.end))
        else:
            child.wait(time.monotonic() + self.chance.uniform(0, 0.7 * self.work))
        if moment == "writing":
            self._wait_for(child, lambda: any(self.place.rglob(".*.ckpt.*.tmp")), pause=0)
        return child.kill()

    def _wait_for(self, child: Child, has_come: Callable[[], bool], pause: float = 0.002) -> None:
        end = time.monotonic() + PATIENCE
        while child.is_alive() and time.monotonic() < end and not has_come():
            time.sleep(pause)

    def _conclude(self, last: Child | None) -> None:
        """Give the command once more if a kill ended the last one, leave it alone until it is done, and compare."""
        self._finish(self._start() if last is None or last.code == -signal.SIGKILL else last)
        self._compare()

    def _finish(self, child: Child) -> None:
        """Leave it alone until it is done; what hangs is killed, which its code tells."""
        if not child.wait(time.monotonic() + PATIENCE):
            child.kill()
        if child.code:
            self.tally.lost.append(f"{self.victim.name}: {self.place.name} ended with the code {child.code}")

    def _compare(self) -> None:
        """All kills of a trial are made good if it ends as the undisturbed one did."""
        self.tally.tried += self.wounds
        try:
            outcome = self.victim.outcome(self.place)
        except Exception as error:  # whatever is missing or damaged, the result is lost
            self.tally.lost.append(f"{self.victim.name}: {self.place.name} left no result: {error}")
            return
        other = [part for part in self.expected if outcome[part] != self.expected[part]]
        if other:
            self.tally.lost.append(f"{self.victim.name}: {self.place.name} differs in {', '.join(other)}")
        else:
            self.tally.identical += self.wounds
