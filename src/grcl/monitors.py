"""Numbers that need no target label: how sure the model is, and both sides of the promises of Eq. 5 to 7."""

from grcl.evaluate import mean_entropy
from grcl.memory.sight import Sight


def monitor(sight: Sight) -> dict[str, dict[str, float]]:
    """What is written down before and after every stage."""
    target = {"entropy": mean_entropy(sight.target.scores), "agreement": sight.agreement}
    return {"target": target, "constraints": sight.losses}
