"""The target's own labels: those of the surest images of every class, and nothing from the rest."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grcl.data.feeds import Samples
from grcl.memory.pseudo_labels import UNLABELLED, View, look_at, smoothed
from grcl.methods.self_training import SelfTraining, SelfTrainingSettings, surest
from test_episodic import a_network, a_stage, colourful

CLASSES = 3


def a_view(size: float = 1) -> View:
    """Random scores of some size."""
    return View(torch.ones(90, 2), size * torch.randn(90, CLASSES, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("size", [1, 30])  # by 30, 32 bits round most of the probabilities to 1
@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 1.0])
def test_of_every_class_the_surest_images_up_to_its_part(share: float, size: float) -> None:
    view = a_view(size)
    labels = surest(view, share)
    ordered = view.scores.double().sort(dim=1).values
    odds = (ordered[:, :-1] - ordered[:, -1:]).exp().sum(dim=1)
    for k in range(CLASSES):
        members = [i for i in range(90) if view.classes[i] == k]
        members.sort(key=lambda i: float(odds[i]))
        assert set(torch.nonzero(labels == k)[:, 0].tolist()) == set(members[: round(share * 90 / CLASSES)])


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_as_much_of_every_class_as_is_predicted_of_it(share: float) -> None:
    """For a target in which a class is rare: of its few images no larger part is believed than of the others."""
    view = a_view()
    view.scores[:, 0] += 1
    counts = view.classes.bincount(minlength=CLASSES)
    assert counts.max() > 2 * counts.min() > 0
    labels = surest(view, share, "predicted")
    for k in range(CLASSES):
        members = torch.nonzero(view.classes == k)[:, 0]
        best = view.certainty[members].sort(descending=True).values[: round(share * len(members))]
        assert torch.equal(view.certainty[labels == k].sort(descending=True).values, best)


def test_a_target_of_few_images_still_gets_labels() -> None:
    view = View(torch.ones(4, 2), torch.eye(10)[:4])
    assert torch.equal(surest(view, 0.3), torch.arange(4))
    assert (surest(view, 0.0) == UNLABELLED).all()


def test_a_larger_share_keeps_every_label_of_a_smaller_one() -> None:
    few, many = surest(a_view(), 0.2), surest(a_view(), 0.6)
    assert torch.equal(many[few != UNLABELLED], few[few != UNLABELLED])
    assert (many != UNLABELLED).sum() > (few != UNLABELLED).sum()


def begun(**settings: float) -> SelfTraining:
    training = SelfTraining(SelfTrainingSettings.model_validate(settings))
    training.begin(a_stage(60), torch.device("cpu"))
    return training


def test_labels_are_made_anew_as_often_as_asked() -> None:
    training, network = begun(refreshes=4), a_network()
    seen = []
    for step in range(12):
        training.refresh(network, step / 12)
        seen.append(int(training.made))
    assert seen == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]


def test_the_share_grows_over_the_stage() -> None:
    """From the first to the last, which the last labels of the stage have."""
    training, network = begun(first_share=0.1, last_share=0.9, refreshes=3, neighbours=1), a_network()
    assert training.stage is not None
    target = look_at(network, training.stage.target)
    for step, share in enumerate((0.1, 0.1, 0.5, 0.5, 0.9, 0.9)):
        training.refresh(network, step / 6)
        assert torch.equal(training.labels, surest(target, share)), step


def test_an_image_without_a_label_teaches_nothing() -> None:
    training, network = begun(), a_network()
    training.labels[:] = UNLABELLED
    training.labels[:3] = torch.tensor([2, 0, 1])
    images, index = colourful(5, 8) / 255, torch.arange(8)
    loss = training.loss(network, Samples(images, index))
    # 3 of 60 images have a label, so that 0.4 are to be expected among 8
    wanted = F.cross_entropy(network(images[:3]), torch.tensor([2, 0, 1]), reduction="sum") / 0.4
    for ours, theirs in zip(_gradients(loss, network), _gradients(wanted, network), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_over_a_whole_pass_the_loss_is_the_mean_over_the_labelled() -> None:
    training, network = begun(), a_network()
    training.refresh(network, 0.5)
    has_label = training.labels != UNLABELLED
    images = colourful(5, 60) / 255
    batches = [training.loss(network, Samples(images[part], part)).detach() for part in torch.arange(60).split(12)]
    wanted = F.cross_entropy(network(images[has_label]), training.labels[has_label]).detach()
    torch.testing.assert_close(torch.stack(batches).mean(), wanted)


def test_a_batch_without_any_label_moves_nothing() -> None:
    training, network = begun(), a_network()
    loss = training.loss(network, Samples(colourful(5, 8) / 255, torch.arange(8)))
    assert float(loss.detach()) == 0
    assert all(not gradient.any() for gradient in _gradients(loss, network))


def _gradients(loss: Tensor, network: torch.nn.Module) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss, list(network.parameters()))


def test_the_neighbours_are_asked_when_labels_are_made() -> None:
    network = a_network()
    found = {}
    for neighbours in (1, 10):
        training = begun(neighbours=neighbours, first_share=0.9)
        training.refresh(network, 0.0)
        assert training.stage is not None
        target = look_at(network, training.stage.target)
        assert torch.equal(training.labels, surest(smoothed(target, neighbours), 0.9))
        found[neighbours] = training.labels
    assert not torch.equal(found[1], found[10])
