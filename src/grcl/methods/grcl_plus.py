"""GRCL+: the frame of GRCL with another objective on the new domain. It learns from the target's own labels, and every
step is projected so that neither the source nor the remembered domains lose (Eq. 8)."""

from dataclasses import replace
from functools import partial
from typing import Literal

import torch
from pydantic import NonNegativeFloat
from torch import Tensor

from grcl.data.feeds import Batch, Feed, Samples, in_parts
from grcl.data.stream import Stage
from grcl.gradients import Loss, Projected, descend_within
from grcl.methods.base import Method, classification_loss_in_parts
from grcl.methods.contrast import Contrast, ContrastOfBatch, ContrastSettings
from grcl.methods.feeds import memory_feeds, source_feed, target_feed
from grcl.methods.optimizers import Descent, Share
from grcl.methods.self_training import SelfTraining, SelfTrainingSettings
from grcl.methods.style import in_style_of, veiled
from grcl.networks.classifier import Classifier
from grcl.networks.statistics import statistics_from
from grcl.runtime.settings import Settings


class GrclPlus(Method):
    """Self-training on the target, the source and the memory learned along, under the two gradient constraints."""

    uses_memory = True

    class Config(Settings):
        """GRCL+'s own settings."""

        target_weight: NonNegativeFloat = 1.0
        """Weight of the target's self-training in the objective."""
        source_weight: NonNegativeFloat = 1.0
        """Weight of the source's cross-entropy in the objective."""
        memory_weight: NonNegativeFloat = 1.0
        """Weight of the memory's cross-entropy in the objective, shared by its episodes."""
        contrast_weight: NonNegativeFloat = 0.0
        """Weight of the contrastive loss (Eq. 1), which brings nothing beside self-training; 0 takes it out."""
        source_constraint: bool = True
        """Whether the step may not raise the source's loss (Eq. 3)."""
        memory_constraint: Literal["joint", "per_domain", "off"] = "joint"
        """No rise of the loss on the whole memory (Eq. 6), on each episode (Eq. 5), or no such constraint."""
        projected: Projected = "step"
        """What is projected: the step that the optimiser makes, or the gradient, as in the paper; then the step made of
        it may oppose a constraint."""
        veil: Share = 0.4
        """How far another image of the target shows through an image, at most; 0 for no such veil."""
        style: bool = True
        """Whether labelled images are shown in the style of a target image."""
        style_band: Share = 0.1
        """Up to which frequency an image takes over the amplitudes of the other, as a share of its size."""
        self_training: SelfTrainingSettings = SelfTrainingSettings()
        contrast: ContrastSettings = ContrastSettings()
        optimizer: Descent = Descent(rate=4e-3)

    def __init__(self, network: Classifier, config: Config) -> None:
        super().__init__(network, config)
        self.self_training = SelfTraining(config.self_training)
        self.contrast = Contrast(config.contrast, network.feature_size) if config.contrast_weight else None

    def feeds(self, stage: Stage) -> tuple[Feed, ...]:
        form = "per_domain" if self.config.memory_constraint == "per_domain" else "joint"
        memory = memory_feeds(stage, form, is_augmented=True)
        union = [replace(self.contrast.feed(stage), clock=None)] if self.contrast else []
        return source_feed(stage, is_augmented=True), target_feed(stage, is_augmented=True), *memory, *union

    def begin(self, stage: Stage) -> None:
        self.self_training.begin(stage, self.device)
        if self.contrast:
            self.contrast.begin(stage)
        self.optimizers = {"network": self.config.optimizer.build(self.parameters())}

    def warm_up(self, stage: Stage) -> None:
        if self.contrast:
            self.contrast.fill_bank(self.network, stage)

    def step(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        self.self_training.refresh(self.network, progress)
        target = batch["target"]
        veil_on_target = replace(target, images=veiled(target.images, target.images, self.config.veil))
        losses: dict[str, Loss] = {
            "target": partial(in_parts, partial(self.self_training.loss, self.network), veil_on_target)
        }
        objective = {"target": self.config.target_weight}
        labelled = [name for name in batch if name not in ("target", "union")]
        for name in labelled:
            halves = self.halves(name, batch[name], target)
            for half, samples in halves.items():
                losses[half] = partial(classification_loss_in_parts, self.network, samples)
                objective[half] = self._weight(name, labelled) / len(halves)
        contrast = self._contrast(batch)
        if contrast:
            losses["contrast"], objective["contrast"] = contrast.loss, self.config.contrast_weight
        log = descend_within(
            statistics_from(objective, losses, self.network),
            objective=objective,
            constraints=[name for name in labelled if self._is_constraint(name)],
            optimizer=self.optimizers["network"],
            projected=self.config.projected,
        )
        if contrast:
            contrast.update_keys()
            log |= contrast.signs(log["loss/contrast"])
        return {"labelled share": self.self_training.share(), **log, "alarm/classes": self.self_training.classes()}

    def halves(self, name: str, samples: Samples, target: Samples) -> dict[str, Samples]:
        """Every other labelled image by itself, which the constraint is on, and the others as they meet the target: in
        its style, under a veil of its images.

        Were none left by itself, a source far from the target would be unlearned. Batches are in random order, so no
        draw is needed to choose.
        """
        plain, met = _every_other(samples, 0), _every_other(samples, 1)
        if not len(met.images):
            return {name: plain}
        images = veiled(target.images, met.images, self.config.veil)
        if self.config.style:
            partners = target.images[torch.arange(len(images), device=images.device) % len(target.images)]
            images = in_style_of(partners, images, self.config.style_band)
        return {name: plain, f"{name} in style": replace(met, images=images)}

    def _contrast(self, batch: Batch) -> ContrastOfBatch | None:
        """The contrastive loss, which may know the labels that the target has by now."""
        if self.contrast is None:
            return None
        self.contrast.label_target(self.self_training.labels)
        return self.contrast.on(batch["union"], self.network)

    def _weight(self, name: str, labelled: list[str]) -> float:
        if name == "source":
            return float(self.config.source_weight)
        return float(self.config.memory_weight) / (len(labelled) - 1)

    def _is_constraint(self, name: str) -> bool:
        return bool(self.config.source_constraint if name == "source" else self.config.memory_constraint != "off")


def _every_other(samples: Samples, first: int) -> Samples:
    """Half of the samples of a labelled feed, from the `first` on."""
    assert samples.labels is not None
    return replace(
        samples, images=samples.images[first::2], index=samples.index[first::2], labels=samples.labels[first::2]
    )
