"""A stage that is trained by itself, in a directory of its own: a second call goes on where the first was stopped."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from grcl.data.stream import Stage
from grcl.loop import Journal, Operator, Plan, Task, train
from grcl.methods.base import Method
from grcl.runtime import distributed
from grcl.runtime.log import RunLog
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
        saved = self.directory.checkpoints.newest() or {"step": 0, "seconds": 0.0, "log_offset": 0}
        begin(saved.get("method"))
        log = RunLog(self.directory.path, saved["log_offset"], saved["step"])
        journal = Journal(log, saved["step"], saved["seconds"])

        def save(step: int) -> None:
            if distributed.is_main():
                totals = {"step": step, "seconds": journal.seconds, "log_offset": journal.log.offset}
                self.directory.checkpoints.save({**totals, "method": method.state()})

        with closing(journal.log):
            train(method, Task(self.title, self.stage, saved["step"], save), self.plan, journal, operator)
