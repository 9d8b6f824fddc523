"""Numbers that need no target label: how sure the model is, and both sides of the promises of Eq. 5 to 7."""

from grcl.data.stream import Labelled, Stage, join
from grcl.evaluate import cross_entropy, mean_entropy
from grcl.memory.pseudo_labels import Model, cluster_labels, look_at


def watch_target(model: Model, stage: Stage) -> dict[str, float]:
    """Entropy of the predictions on D_t, and how often k-means and the classifier give the same label."""
    view = look_at(model, stage.target)
    clusters = cluster_labels(view, model, stage.source)
    return {"entropy": mean_entropy(view.scores), "agreement": float((clusters == view.classes).double().mean())}


def watch_constraints(model: Model, stage: Stage) -> dict[str, float]:
    """L_ce on the source, on M and on each M_k: measured before and after a stage, the two sides of Eq. 5 to 7."""
    sets: dict[str, Labelled] = {"source": stage.source}
    if stage.memory:
        sets["M"] = join(stage.memory)
        sets |= {f"M_{k}": episode for k, episode in enumerate(stage.memory, start=1)}
    return {name: cross_entropy(lambda x: model.see(x)[1], part, model.device) for name, part in sets.items()}
