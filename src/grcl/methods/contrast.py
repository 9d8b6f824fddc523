"""The contrastive part that several methods share: projector g, feature bank B_t and InfoNCE over them (Sec. 3.1)."""

import logging
from collections.abc import Iterator
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from grcl.data.feeds import Feed, Samples, in_parts
from grcl.data.stream import Stage
from grcl.evaluate import map_images
from grcl.losses import class_nce, info_nce
from grcl.memory.bank import FeatureBank
from grcl.memory.pseudo_labels import UNLABELLED
from grcl.methods.optimizers import Share
from grcl.networks.classifier import Classifier
from grcl.runtime.settings import Settings
from grcl.shapes import Bool, Float, Int

logger = logging.getLogger(__name__)


class ContrastSettings(Settings):
    """The contrastive loss (Eq. 1); the paper's numbers are the defaults."""

    temperature: PositiveFloat = 0.07
    """τ of Eq. 1."""
    negatives: PositiveInt = 1024
    """Keys drawn from the bank for every batch; clamped to the bank."""
    key_momentum: Share = 0.5
    """Share of the old key that an update keeps."""
    hidden: PositiveInt = 2048
    """Width of the projector's hidden layer."""
    size: PositiveInt = 128
    """Numbers per key."""
    query: Literal["view", "literal", "two_views"] = "view"
    """The fresh embedding of a view against the sample's own key; the paper to the letter, whose negatives have no
    gradient; or two fresh views against each other."""
    bank_holds_memory: bool = True
    """Whether the remembered images take part in the contrastive loss."""
    same_class: Literal["negative", "neither", "positive"] = "negative"
    """What a key is whose image has the same label, where both have one: a negative like any other, as in the paper,
    neither negative nor positive, or a positive like one's own key."""


class Contrast(nn.Module):
    """g and B_t, and the loss of a batch over them."""

    bank: FeatureBank
    labels: Tensor

    def __init__(self, settings: ContrastSettings, feature_size: int) -> None:
        super().__init__()
        self.settings = settings
        self.has_warned = False
        self.projector = nn.Sequential(
            nn.Linear(feature_size, settings.hidden, bias=False),
            nn.ReLU(),
            nn.Linear(settings.hidden, settings.size, bias=False),
        )

    def feed(self, stage: Stage) -> Feed:
        """Augmented views of the union; one pass over it is an epoch."""
        union = stage.union(self.settings.bank_holds_memory)
        views = 2 if self.settings.query == "two_views" else 1
        return Feed("union", union, augmentation=stage.augmentation, views=views, clock=len(union))

    def begin(self, stage: Stage) -> None:
        """Make room for the keys of this stage."""
        instances = len(stage.union(self.settings.bank_holds_memory))
        self._warn_of_clamping(stage.index, instances)
        device = next(self.projector.parameters()).device
        self.bank = FeatureBank(instances, self.settings.size, self.settings.key_momentum).to(device)
        if self.settings.same_class != "negative":
            memory = stage.memory if self.settings.bank_holds_memory else ()
            known = torch.cat([stage.source.labels, *(episode.labels for episode in memory)])
            self.register_buffer("labels", F.pad(known, (0, instances - len(known)), value=UNLABELLED).to(device))

    def _warn_of_clamping(self, stage: int, keys: int) -> None:
        """Tell once where there are fewer keys than negatives to be drawn."""
        if keys < self.settings.negatives and not self.has_warned:
            text = "the contrast's negatives (%d) are clamped where the bank has fewer keys (stage %d: %d)"
            logger.warning(text, self.settings.negatives, stage, keys)
            self.has_warned = True

    def label_target(self, labels: Int[Tensor, " target"]) -> None:
        """The target's own labels, as far as it has any."""
        if self.settings.same_class != "negative":
            self.labels[-len(labels) :] = labels

    def fill_bank(self, network: Classifier, stage: Stage) -> None:
        """k(x) = g(f(x; θ_{t−1})) for every instance, without augmentation."""
        union = stage.union(self.settings.bank_holds_memory)
        self.bank.fill(map_images(lambda images: self.embed(network, images), union, network.device))

    def embed(self, network: Classifier, images: Float[Tensor, "n 3 height width"]) -> Float[Tensor, "n size"]:
        """g(f(x)) on the unit sphere."""
        return F.normalize(self.projector(network.features(images)), dim=1)

    def alike(self, index: Int[Tensor, " batch"], places: Int[Tensor, " keys"]) -> Bool[Tensor, "batch keys"]:
        """Which instances are known to be of one class."""
        labels = self.labels[index][:, None]
        return (labels == self.labels[places]) & (labels != UNLABELLED)

    def on(self, samples: Samples, network: Classifier) -> "ContrastOfBatch":
        """The contrastive loss of one batch, to be computed when it is asked for."""
        return ContrastOfBatch(self, samples, network)


class ContrastOfBatch:
    """L_contrast of one batch (Eq. 1); it keeps the fresh keys, so that updating the bank costs no second pass."""

    def __init__(self, contrast: Contrast, samples: Samples, network: Classifier) -> None:
        self.contrast = contrast
        self.samples = samples
        self.network = network
        self.fresh: Tensor | None = None
        self.places: Tensor | None = None
        self.chance: list[Tensor] = []
        """The loss of each sample if all keys were alike to it."""

    def loss(self) -> Tensor | Iterator[Tensor]:
        """Build the graph: embed the views, draw negatives, compare; micro-batches share the negatives."""
        return in_parts(self._loss_of, self.samples)

    def _loss_of(self, samples: Samples) -> Float[Tensor, ""]:
        index, settings, bank = samples.index, self.contrast.settings, self.contrast.bank
        embedded = self.contrast.embed(self.network, samples.images)
        fresh, second = embedded[: len(index)], embedded[len(index) :]
        seen = [] if self.fresh is None else [self.fresh]
        self.fresh = torch.cat([*seen, fresh.detach()])
        stored = bank.keys[index]
        query, positive = {"view": (fresh, stored), "literal": (stored, fresh), "two_views": (fresh, second)}[
            settings.query
        ]
        self.places = bank.draw(settings.negatives) if self.places is None else self.places
        own = self.places[None, :] == index[:, None]
        keys = bank.keys[self.places]
        masked = own
        if settings.same_class == "neither":
            masked = own | self.contrast.alike(index, self.places)
        self.chance.append((~masked).sum(dim=1).log1p())
        if settings.same_class == "positive":
            alike = self.contrast.alike(index, self.places)
            return class_nce(query, positive, keys, own, alike, settings.temperature)
        return info_nce(query, positive, keys, masked, settings.temperature)

    def signs(self, loss: Float[Tensor, ""]) -> dict[str, Tensor]:
        """Whether all keys of the batch are alike (1), and its loss as a share of that of keys which tell nothing."""
        assert self.fresh is not None
        return {"alarm/likeness": self.fresh.mean(dim=0).norm(), "alarm/chance": loss / torch.cat(self.chance).mean()}

    def update_keys(self) -> None:
        """UpdateKey of Algorithm 1, with the embeddings that the loss was computed from."""
        assert self.fresh is not None
        self.contrast.bank.update(self.samples.index, self.fresh)
