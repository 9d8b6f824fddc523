"""A stage that is trained by itself, in a directory of its own: a second call goes on where the first was stopped."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from grcl.data.stream import Stage
from grcl.journal import Journal
from grcl.loop import Operator, Plan, Task, train
from grcl.methods.base import Method
from grcl.runtime import distributed
from grcl.runtime.run_directory import RunDirectory


@dataclass(frozen=True)
class LoneStage:
    """A stage, and where and how it is trained."""

    title: str
    stage: Stage
    directory: RunDirectory
    plan: Plan

    def train(self, method: Method, begin: Callable[[dict[str, Any] | None], None], operator: Operator) -> None:
        """To the end; `begin` gets the method ready, from what was saved of it if there is something."""
        saved = self.directory.checkpoints.newest() or {"step": 0}
        begin(saved.get("method"))
        journal = Journal.open(self.directory.path, saved, self.plan.device)

        def save(step: int) -> None:
            if distributed.is_main():
                self.directory.checkpoints.save({**journal.state(), "step": step, "method": method.state()})

        with closing(journal.log):
            train(method, Task(self.title, self.stage, saved["step"], save), self.plan, journal, operator)
