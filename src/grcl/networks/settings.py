"""Which network is trained, and what it starts from."""

from pathlib import Path
from typing import Literal

from pydantic import model_validator

from grcl.networks.names import ENCODERS
from grcl.runtime.settings import Settings

SMALL_DOMAIN = 1000


class Network(Settings):
    """Which network is trained, and what it starts from."""

    name: str = "lenet5"
    """The backbone: lenet5 for images of 32x32 pixels, resnet18, resnet50, or any other name that timm knows."""
    pretrained: bool | None = None
    """Whether it starts from ImageNet weights; if nothing is said, all but lenet5 do, unless weights are given."""
    weights: Path | None = None
    """A file of weights to start from, torch or safetensors."""
    precision: Literal["float32", "bf16"] = "float32"
    """Numbers of the encoder's passes; bf16 is meant for a GPU and is slower on a CPU. Weights keep their 32 bits."""
    compile: bool = False
    """Whether torch compiles the encoder, meant for a GPU."""
    statistics: Literal["auto", "frozen", "learned"] = "auto"
    """Whether a stage updates the running statistics of batch normalisation; auto keeps those that a network starts
    from where source or target have fewer than 1,000 images."""

    @model_validator(mode="after")
    def _agrees(self) -> "Network":
        if self.pretrained and self.name in ENCODERS:
            raise ValueError(f"there are no ImageNet weights of {self.name}; leave network.pretrained out")
        if self.pretrained and self.weights:
            raise ValueError("network.weights and network.pretrained = true are two beginnings; choose one")
        return self

    @property
    def is_from_imagenet(self) -> bool:
        """Whether ImageNet weights are what it starts from."""
        return self.pretrained is not False and self.weights is None and self.name not in ENCODERS

    def freezes_statistics(self, images: int) -> bool:
        """Whether a stage whose smallest domain has so many images leaves the running statistics as they are.

        A network that starts from nothing has none that are worth keeping.
        """
        if self.statistics != "auto":
            return self.statistics == "frozen"
        return images < SMALL_DOMAIN and (self.is_from_imagenet or self.weights is not None)
