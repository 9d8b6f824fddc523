"""A learner: fitted once on labelled images, adapted to unlabelled ones again and again, months apart."""

import logging
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from grcl.config import LearnerSettings
from grcl.data.unreadable import Unreadable
from grcl.learner.adapting import Order, adapt
from grcl.learner.evaluation import Evaluation, Prediction, confusion_of
from grcl.learner.export import Kind, export_model
from grcl.learner.fitting import fit_model, settings_for_source
from grcl.learner.history import Entry, now
from grcl.learner.inputs import Data, read_labelled, read_unlabelled
from grcl.learner.present import Present
from grcl.learner.source import KEPT, balanced, given_source, remembered_source
from grcl.learner.state import Facts, SourceFacts, StateDirectory
from grcl.loop import Operator
from grcl.memory.pseudo_labels import look_at
from grcl.runtime.borrowing import borrowed_torch
from grcl.runtime.checkpoint import encode
from grcl.runtime.errors import Refusal
from grcl.runtime.interruption import Interruption
from grcl.runtime.progress import Display, Silent
from grcl.runtime.seeding import generator
from grcl.shapes import Float

logger = logging.getLogger(__name__)

Changes = Mapping[str, Any]
"""Settings by key, such as {"training.epochs": 5}."""


class Learner:
    """A classifier for one's own images and all that it remembers, in the directory `state`.

    Images are given as a folder, a torch Dataset, or arrays and tensors. Without a directory the learner lives in a
    temporary one, which goes with it; `save` copies it to a place of its own.
    """

    def __init__(self, state: str | Path | None = None, display: Display | None = None) -> None:
        self._is_temporary = state is None
        place = Path(tempfile.mkdtemp(prefix="grcl-") if state is None else state)
        if state is None:
            weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)
        self._state = StateDirectory(place)
        self._display = display or Silent()
        self._source: Data | None = None
        self._last: Present | None = None

    @classmethod
    def load(cls, path: str | Path) -> "Learner":
        """The learner in a directory; what it does from now on is kept there."""
        learner = cls(path)
        learner._present()
        return learner

    def save(self, path: str | Path) -> None:
        """Copy the state to a new directory; this learner stays where it is."""
        self._state.copy_to(Path(path))

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of `predict_proba`."""
        return self._present().facts.classes

    def history(self) -> list[Entry]:
        """Every fit, adapt, rollback and forget."""
        return self._present().entries

    @borrowed_torch()
    def fit(
        self,
        source: Any,
        labels: Any = None,
        *,
        classes: Sequence[str] | None = None,
        method: str | None = None,
        settings: Changes | None = None,
        preset: str | None = None,
        keep_source: int = 0,
    ) -> Entry:
        """Train on labelled images; `method` is what later adapts use, and `keep_source` images stay in the state."""
        if keep_source < 0:
            raise Refusal(f"keep_source = {keep_source}; it takes a number of images")
        if not self._is_temporary:
            self._state.require_free()
        chosen = settings_for_source(source, settings or {}, method, preset)
        data = read_labelled(source, chosen.images, labels, classes)
        if classes is not None and (unknown := sorted(set(data.classes) - set(classes))):
            raise Refusal(f"label {unknown[0]!r} is none of the classes given: {', '.join(classes)}")
        if classes is not None and (empty := sorted(set(classes) - set(data.classes))):
            raise Refusal(f"no image is labelled {empty[0]!r}; give some, or leave it out of the classes")
        with self._state.changing(), Interruption() as interruption:
            if self._is_temporary:
                _empty(self._state.path)
            self._state.require_free()
            model = fit_model(data, chosen, self._state.work, Operator(self._display, interruption))
            files = {"models/0000.ckpt": model.encoded()}
            if keep_source:
                files[KEPT] = encode(_kept(data, keep_source, chosen.seed))
            entry = Entry(number=0, kind="fit", date=now(), data=data.facts, settings=chosen.as_json(), model=0)
            self._state.commit(_first_facts(data, chosen, keep_source), entry, files)
        self._source = data if data.place is None else None
        return entry

    @borrowed_torch()
    def adapt(
        self,
        target: Any,
        *,
        method: str | None = None,
        if_worse: Literal["refuse", "keep"] = "refuse",
        sample: Any = None,
        source: Any = None,
        settings: Changes | None = None,
    ) -> Entry:
        """Adapt to unlabelled images and remember some of them; if the verdict is worse, the model before stays.

        An interrupted adapt changes nothing, and the same call goes on with it. On a labelled `sample` the accuracy
        is measured too. The `source` is named only where it is not found where it was.
        """
        if if_worse not in ("refuse", "keep"):
            raise Refusal(f"if_worse = {if_worse!r}; it takes refuse or keep")
        with self._changing() as present, Interruption() as interruption:
            chosen = present.settings_for(method, settings or {})
            data = read_unlabelled(target, chosen.images.model_copy(update={"size": present.facts.size}))
            labelled = None if sample is None else self._known(present, sample, None)[0]
            order = Order(data, self._find_source(present, source), labelled, chosen, if_worse == "keep")
            entry, files = adapt(present, order, Operator(self._display, interruption))
            self._state.commit(_where(present.facts, order.source), entry, files)
        return entry

    def rollback(self, to: int) -> Entry:
        """Put the model and the memory of an earlier entry in force again; what was forgotten since stays forgotten."""
        with self._changing() as present:
            old = _entry(present, to)
            self._state.read(present.facts, f"models/{old.model:04d}.ckpt")
            there = tuple(n for n in old.episodes if f"memory/{n:04d}.ckpt" in present.facts.files)
            number = present.facts.newest + 1
            entry = Entry(number=number, kind="rollback", date=now(), to=to, model=old.model, episodes=there)
            self._state.commit(present.facts, entry, {})
        return entry

    def forget(self, domain: int) -> Entry:
        """Erase the images of the domain of entry `domain` from the whole state; the weights stay as they became."""
        with self._changing() as present:
            forgotten = _entry(present, domain)
            if forgotten.kind != "adapt" or forgotten.data is None:
                raise Refusal(f"entry {domain} is a {forgotten.kind} and brought no domain; see grcl history")
            same = [entry for entry in present.entries if entry.kind == "adapt" and entry.data]
            twins = [e.number for e in same if e.data and e.data.fingerprint == forgotten.data.fingerprint]
            erased = tuple(f"{kind}/{n:04d}.ckpt" for n in twins for kind in ("memory", "examples"))
            left = tuple(n for n in present.entry.episodes if n not in twins)
            number, model = present.facts.newest + 1, present.entry.model
            entry = Entry(number=number, kind="forget", date=now(), domain=domain, model=model, episodes=left)
            self._state.commit(present.facts, entry, {}, erased)
            (self._state.path / "report.html").unlink(missing_ok=True)  # it shows images
        return entry

    def look(self, images: Any) -> list[Prediction]:
        """For every image its class, how sure that is, and whether it looks like nothing that is known.

        Each is named by its file; files that cannot be read are left out.
        """
        present = self._present()
        return _answers(present, read_unlabelled(images, present.reading))

    def predict(self, images: Any) -> list[str]:
        """The name of the class of every image, in the order given; in a folder, in that of the files' names."""
        present = self._present()
        return [prediction.label for prediction in _answers(present, _all_of(images, present))]

    def predict_proba(self, images: Any) -> Float[Tensor, "n classes"]:
        """The probability of every class, in the order of `classes`."""
        present = self._present()
        return look_at(present.model.method, _all_of(images, present).images).scores.softmax(dim=1).cpu()

    def evaluate(self, images: Any, labels: Any = None) -> Evaluation:
        """The answers on labelled images; those of classes that the learner does not know are counted apart."""
        present = self._present()
        data, others = self._known(present, images, labels)
        assert data.labels is not None
        answers = look_at(present.model.method, data.images).classes
        classes = present.facts.classes
        return Evaluation(classes, confusion_of(data.labels, answers, len(classes)), others)

    def score(self, images: Any, labels: Any = None) -> float:
        """The share of right answers."""
        return self.evaluate(images, labels).accuracy

    def export(self, path: str | Path, kind: Kind) -> None:
        """Write the model for other programs, once its answers are the same there."""
        present = self._present()
        size, classes = present.facts.size, present.facts.classes
        remembered = [episode.pixels[:8] for episode in present.episodes()]
        noise = torch.randint(256, (8, 3, size, size), generator=generator(0, "export"), dtype=torch.uint8)
        export_model(present.model.method, classes, size, kind, Path(path), torch.cat([*remembered, noise]))

    def _present(self) -> Present:
        """What is in force now; another process may have changed it since the last call."""
        if self._last is None or self._state.facts() != self._last.facts:
            self._last = Present(self._state)
        return self._last

    @contextmanager
    def _changing(self) -> Iterator[Present]:
        """What is in force, while no other process changes it; where there is no learner, nothing is made."""
        self._state.facts()
        with self._state.changing():
            yield self._present()

    def _known(self, present: Present, images: Any, labels: Any) -> tuple[Data, dict[str, int]]:
        """Labelled images of known classes, and how many there are of others."""
        classes = present.facts.classes
        data, others = read_labelled(images, present.reading, labels, classes).among(classes)
        if not len(data):
            raise Refusal(f"no class of {data.name} is known to the learner, which knows {', '.join(classes)}")
        if others:
            listed = ", ".join(f"{name} ({count:,})" for name, count in others.items())
            logger.warning("images of classes that the learner does not know are left out: %s", listed)
        return data, others

    def _find_source(self, present: Present, given: Any) -> Data:
        if given is not None:
            return given_source(given, present.facts, present.reading)
        if self._source is not None and self._source.fingerprint == present.facts.source.fingerprint:
            return self._source
        return remembered_source(self._state, present.facts, present.reading)


def _all_of(images: Any, present: Present) -> Data:
    """Images to be answered without their names: were one left out, the answers would be taken for those of others."""
    try:
        return read_unlabelled(images, present.reading.model_copy(update={"unreadable": "refuse"}))
    except Unreadable as error:
        raise Refusal(
            f"{error.found}; put good copies in their place, or ask Learner.look, which names files"
        ) from None


def _answers(present: Present, data: Data) -> list[Prediction]:
    view, familiarity = look_at(present.model.method, data.images), present.model.familiarity
    assert familiarity is not None
    columns = view.classes.tolist(), view.confidence.tolist(), familiarity.is_strange(view).tolist()
    rows = zip(data.files, *columns, strict=True)
    classes = present.facts.classes
    return [Prediction(file, classes[place], sure, strange) for file, place, sure, strange in rows]


def _entry(present: Present, number: int) -> Entry:
    if not 0 <= number < len(present.entries):
        raise Refusal(f"there is no entry {number}; the history has 0 to {len(present.entries) - 1}")
    return present.entries[number]


def _kept(data: Data, count: int, seed: int) -> dict[str, Tensor]:
    """A part of the source that travels with the state."""
    assert data.labels is not None
    places = balanced(data.labels, count, seed)
    return {"pixels": data.images.read(places), "labels": data.labels[places]}


def _first_facts(data: Data, settings: LearnerSettings, kept: int) -> Facts:
    place = None if data.place is None else str(data.place)
    source = SourceFacts(
        name=data.name, place=place, fingerprint=data.fingerprint, images=len(data), kept=min(kept, len(data))
    )
    assert settings.images.size is not None
    return Facts(classes=data.classes, size=settings.images.size, newest=0, source=source)


def _where(facts: Facts, source: Data) -> Facts:
    """The facts, with the new place of a source that was found to be the same."""
    if source.place is None or source.fingerprint != facts.source.fingerprint:
        return facts
    return facts.model_copy(update={"source": facts.source.model_copy(update={"place": str(source.place)})})


def _empty(folder: Path) -> None:
    """A learner in a temporary place may be fitted anew."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "lock":
            path.unlink()
