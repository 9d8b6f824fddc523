"""Backbones of timm, without their classification head. timm is imported when it is first needed: it takes seconds."""

from types import ModuleType
from typing import Any

from torch import nn

from grcl.networks.torchvision_schemas import import_torchvision
from grcl.runtime.errors import Refusal

COMMON = ("resnet18", "resnet50", "tf_efficientnet_lite0")
_SMALLEST = 32  # five halvings, as most backbones have, leave one pixel of it


def import_timm() -> ModuleType:
    """timm, whatever build of torchvision there is."""
    import_torchvision()
    import timm

    module: ModuleType = timm
    return module


def has_backbone(name: str) -> bool:
    """Whether timm knows the name, and the tag of its weights where it has one: "resnet18.tv_in1k"."""
    try:
        return import_timm().get_pretrained_cfg(name) is not None
    except RuntimeError:  # a known name with an unknown tag
        return False


def list_backbones() -> tuple[str, ...]:
    """All names that timm knows."""
    return tuple(import_timm().list_models())


def facts_of(name: str) -> Any:
    """What timm tells about a backbone's input, weights and head; nothing is built or fetched."""
    return import_timm().get_pretrained_cfg(name)


def create(name: str, **options: Any) -> nn.Module:
    """The backbone up to its pooled features, its weights drawn from torch's global generator."""
    encoder: nn.Module = import_timm().create_model(name, num_classes=0, **options)
    return encoder


def backbone_size(name: str, asked: int | None) -> int:
    """The pixels on each side: those asked for, if the backbone can take them, or else its own."""
    facts = facts_of(name)
    own: int = facts.input_size[-1]
    smallest = facts.min_input_size[-1] if facts.min_input_size else min(own, _SMALLEST)
    if asked is not None and facts.fixed_input_size and asked != own:
        raise Refusal(f"{name} takes images of {own} pixels and no others; images.size = {asked} needs another network")
    if asked is not None and asked < smallest:
        raise Refusal(f"{name} takes images of {smallest} pixels or more; images.size = {asked} is too small")
    return asked or own
