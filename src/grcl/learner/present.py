"""What is in force in a state: its model, its remembered domains, the settings that an adapt starts from."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from grcl.config import LearnerSettings, resolve_learner
from grcl.data.reading import Reading
from grcl.learner.defaults import gentle
from grcl.learner.history import Entry
from grcl.learner.model import UNADAPTED, Model, require_model, restored
from grcl.learner.state import Damaged, StateDirectory
from grcl.memory.episodic import Episode
from grcl.runtime.borrowing import borrowed_torch
from grcl.runtime.errors import Refusal
from grcl.runtime.run_directory import flat, nested

# A network and its input are chosen by the fit, for good.
_OF_THE_FIT = ("network.name", "network.pretrained", "network.weights", "images.size")


class Present:
    """A state as it is at one moment; what is large is read when it is asked for."""

    def __init__(self, state: StateDirectory) -> None:
        self.state = state
        self.facts = state.facts()
        self.entries = state.entries(self.facts)

    @property
    def entry(self) -> Entry:
        """The newest entry, which tells what is in force."""
        return self.entries[-1]

    @property
    def reading(self) -> Reading:
        """How images are read for this learner."""
        return self.settings_of(0).images.model_copy(update={"size": self.facts.size})

    def settings_of(self, number: int) -> LearnerSettings:
        """The settings of a fit or an adapt."""
        with self.state.understanding(f"history/{number:04d}.json"):
            settings = self._saved_settings(number)
            return resolve_learner(settings.pop("method"), {}, settings)

    def settings_for(self, method: str | None, changes: Mapping[str, Any]) -> LearnerSettings:
        """The settings of the next adapt: those of the fit, with changes. The method goes on if none is named."""
        if fixed := [key for key in changes if key in _OF_THE_FIT]:
            raise Refusal(f"{fixed[0]} is chosen by grcl fit and cannot change later; fit a new learner for it")
        of_the_fit = self._saved_settings(0)
        usual = of_the_fit.pop("method")
        current = self.saved_model["method"]
        name = method or (usual if current == UNADAPTED else current)
        return resolve_learner(name, changes, {**nested(gentle(name)), **of_the_fit})

    def _saved_settings(self, number: int) -> dict[str, Any]:
        """The settings of an entry as it was made; those that came later have today's defaults.

        But for GRCL+'s rule: a rate that was saved without one is meant for plain descent.
        """
        saved = flat(self.entries[number].settings or {})
        if "grcl_plus.optimizer.rate" in saved:
            saved = {"grcl_plus.optimizer.rule": "sgd", **saved}
        return nested(saved)

    @property
    def model_file(self) -> str:
        """The name of the model in force."""
        return f"models/{self.entry.model:04d}.ckpt"

    @cached_property
    def saved_model(self) -> dict[str, Any]:
        """The model in force, as it is kept; if it is damaged, the way back to one that is not is told."""
        try:
            return self._kept_model(self.model_file)
        except Damaged as error:
            whole = self._newest_whole()
            remedy = "put back a copy of it" if whole is None else f"go back with grcl rollback --to {whole}"
            raise Damaged(f"{error}; {remedy}") from None

    def fit(self) -> dict[str, Any]:
        """The model of the fit, as it is kept."""
        return self._kept_model("models/0000.ckpt")

    def _kept_model(self, name: str) -> dict[str, Any]:
        saved = self.state.load(self.facts, name)
        with self.state.understanding(name):
            require_model(saved)
        return saved

    @cached_property
    def model(self) -> Model:
        """The model in force."""
        saved, settings = self.saved_model, self.settings_of(self.entry.model)
        with self.state.understanding(self.model_file), borrowed_torch():
            return restored(saved, settings, len(self.facts.classes))

    def episodes(self) -> list[Episode]:
        """The remembered domains, in their order."""
        names = [f"memory/{number:04d}.ckpt" for number in self.entry.episodes]
        return [Episode(*self.state.images(self.facts, name)) for name in names]

    def _newest_whole(self) -> int | None:
        """The newest entry whose model can be read."""
        for entry in reversed(self.entries):
            try:
                self.state.read(self.facts, f"models/{entry.model:04d}.ckpt")
            except Damaged:
                continue
            return entry.number
        return None
