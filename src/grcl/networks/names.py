"""Networks by name: our own encoders, and the backbones of timm."""

import difflib

from grcl.networks.backbones import COMMON, has_backbone, list_backbones
from grcl.networks.lenet import LeNet5
from grcl.runtime.errors import Refusal

ENCODERS = {"lenet5": LeNet5}


def require_known(name: str) -> None:
    """Refuse a name that nobody knows, with the nearest; timm is asked only about names that are not common."""
    if name in ENCODERS or name in COMMON or has_backbone(name):
        return
    near = difflib.get_close_matches(name, (*ENCODERS, *list_backbones()), n=1, cutoff=0.5)
    there_are = f"there are: {', '.join((*ENCODERS, *COMMON))}, and all others of timm.list_models()"
    raise Refusal(f"unknown network {name!r}; {f'did you mean {near[0]}?' if near else there_are}")
