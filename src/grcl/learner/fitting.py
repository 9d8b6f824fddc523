"""The fit: settings that suit the source, and stage 0 in the work folder of a state."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grcl.adaptation import prepare
from grcl.config import LearnerSettings, read_preset, resolve_learner
from grcl.data.stream import Domain, DomainStream
from grcl.learner.defaults import USUAL_METHOD, defaults, gentle
from grcl.learner.familiarity import learn_familiarity
from grcl.learner.inputs import Data, first_look
from grcl.learner.model import Model, unadapted
from grcl.loop import Operator
from grcl.memory.pseudo_labels import look_at
from grcl.networks import input_size
from grcl.runtime.errors import Refusal
from grcl.runtime.run_directory import flat, nested
from grcl.source_model import source_model, starting_network


def settings_for_source(
    source: Any, changes: Mapping[str, Any], method: str | None = None, preset: str | None = None
) -> LearnerSettings:
    """The defaults for a source like this, with a preset and changes on top; the size of the images is decided."""
    given = {**(flat(read_preset(preset)) if preset else {}), **changes}
    name = method or USUAL_METHOD
    chosen = defaults(*first_look(source), given)
    usual = {key: value for key, value in chosen.items() if key not in changes}
    settings = resolve_learner(name, changes, nested({**gentle(name), **usual}))
    size = input_size(settings.network, settings.images.size)
    return settings.model_copy(update={"images": settings.images.model_copy(update={"size": size})})


def fit_model(data: Data, settings: LearnerSettings, work: Path, operator: Operator) -> Model:
    """A network trained on the source, from where an earlier call was interrupted."""
    if len(data.classes) < 2:
        raise Refusal(f"{data.name} has one class alone, {data.classes[0]}; a learner needs two or more")
    plan = prepare(settings)
    labelled = data.labelled()
    stream = DomainStream(data.classes, (Domain(data.name, labelled, labelled, data.fingerprint),), ())
    network = source_model(starting_network(settings, stream, plan), settings, stream, work, plan, operator)
    model = unadapted(network)
    model.method.eval()
    return model.knowing(learn_familiarity([look_at(model.method, data.images)]))
