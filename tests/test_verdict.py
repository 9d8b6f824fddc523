"""The verdict: sabotage is worse, sureness alone proves nothing, and every reason names its numbers."""

import math
from collections.abc import Callable
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import cohen_kappa_score
from torch import Tensor

from grcl.data.augment import Augmentation
from grcl.data.images import ImageArray, Joined
from grcl.data.stream import Labelled, Stage
from grcl.evaluate import accuracy, mean_entropy
from grcl.journal import Journal
from grcl.learner import vitals as vitals_module
from grcl.learner.defaults import gentle
from grcl.learner.footing import Footing
from grcl.learner.own_groups import own_groups
from grcl.learner.steadiness import steadiness
from grcl.learner.verdict import Verdict, judge
from grcl.learner.vitals import neighbourhood_density, vitals
from grcl.loop import NotFinite, Operator, Plan, Task, train
from grcl.memory.pseudo_labels import View
from grcl.memory.sight import Sight, look_over
from grcl.methods import METHODS, Method
from grcl.methods.grcl_plus import GrclPlus
from grcl.methods.optimizers import Descent
from grcl.methods.supervised import Supervised
from grcl.networks import Classifier, Network, build
from grcl.runtime.interruption import Interruption
from grcl.runtime.log import RunLog
from grcl.runtime.progress import Silent
from grcl.runtime.seeding import generator, seed_everything
from tiny import CLASSES, make

COUNT, KINDS = 200, 10
TRUE = torch.arange(COUNT) % KINDS
CPU = torch.device("cpu")


def seen(
    classes: Tensor, clusters: Tensor, source: float = 0.1, memory: float | None = None, sure: float = 5.0
) -> Sight:
    """A target whose classes and clusters are these."""
    scores = sure * F.one_hot(classes, KINDS).float()
    losses = {"source": source} | ({} if memory is None else {"M": memory, "M_1": memory})
    return Sight(View(F.normalize(scores + 0.1, dim=1), scores), clusters, losses)


def wrong(labels: Tensor, share: float, seed: int = 0) -> Tensor:
    """The labels with this share of them moved to another class."""
    drawn = generator(seed, "wrong")
    is_moved = torch.rand(len(labels), generator=drawn) < share
    return torch.where(is_moved, (labels + torch.randint(1, KINDS, labels.shape, generator=drawn)) % KINDS, labels)


HONEST = seen(wrong(TRUE, 0.4), TRUE)
STEADY = Footing(agreement=1.0, chance=0.1)


def judged(before: Sight, after: Sight, steady: Footing = STEADY, violated: float | None = None) -> Verdict:
    """The verdict, where nothing else is said on a model that sees the same in moved images."""
    return judge(before, after, steady, violated)


def test_labels_that_come_to_fit_the_clusters_are_better() -> None:
    improved = seen(wrong(TRUE, 0.2), TRUE)
    told = f"agreement of k-means and classifier went from {HONEST.agreement:.2f} to {improved.agreement:.2f}"
    assert judged(HONEST, improved) == Verdict("better", told)


def test_the_same_sight_is_no_change() -> None:
    assert judged(HONEST, HONEST).word == "no change"
    assert judged(HONEST, seen(HONEST.target.classes, TRUE, sure=50.0)).word == "no change"  # surer is not better


def test_labels_that_cease_to_fit_the_clusters_are_worse() -> None:
    assert judged(seen(wrong(TRUE, 0.2), TRUE), HONEST).word == "worse"


def test_a_sure_collapse_to_one_class_is_worse() -> None:
    """With the source untouched, entropy at zero, and agreement at its best."""
    one = torch.zeros_like(TRUE)
    collapsed = seen(one, one, sure=100.0)
    assert mean_entropy(collapsed.target.scores) < mean_entropy(HONEST.target.scores)
    assert collapsed.agreement == 1.0
    verdict = judged(HONEST, collapsed)
    assert verdict.word == "worse"
    assert verdict.reason.startswith(
        "it lost what it could read: k-means, the model before and the model after agree on"
    )


def test_one_class_for_everything_before_and_after_is_worse() -> None:
    """Noise looks all alike: three labels that agree on every image tell nothing, where they never name another."""
    one = torch.zeros_like(TRUE)
    assert judged(seen(one, one), seen(one, one)).word == "worse"
    nearly, other = one.clone(), one.clone()
    nearly[:3], other[-3:] = 1, 2
    assert judged(seen(nearly, other), seen(one, one)).word == "worse"


def test_footing_is_nothing_by_chance_and_all_by_certainty() -> None:
    drawn = generator(0, "chance")
    labels = torch.multinomial(torch.tensor([0.7, 0.2, 0.1]), 3 * 20_000, True, generator=drawn).view(3, -1)
    assert Footing.of(*labels).share == pytest.approx(0.0, abs=0.01)
    assert Footing.of(*labels[:2]).share == pytest.approx(0.0, abs=0.01)
    assert Footing.of(labels[0], labels[0], labels[0]).share == 1.0
    assert Footing.of(TRUE, wrong(TRUE, 0.5)).share == pytest.approx(cohens_kappa(TRUE, wrong(TRUE, 0.5)), abs=1e-12)


def cohens_kappa(first: Tensor, second: Tensor) -> float:
    """The oracle for two labels."""
    return float(cohen_kappa_score(first.numpy(), second.numpy()))


@pytest.mark.parametrize("seed", range(20))
def test_labels_by_accident_are_worse_however_well_they_fit_later(seed: int) -> None:
    """What self-training makes of noise: it was labelled at random, and now everything agrees."""
    drawn = generator(seed, "accident")
    classes, clusters, later = torch.randint(KINDS, (3, COUNT), generator=drawn)
    assert judged(seen(classes, clusters), seen(later, later)).word == "worse"
    assert judged(seen(classes, clusters), seen(classes, classes)).word == "worse"


def grouped(groups: Tensor, classes: Tensor) -> View:
    """Images in tight groups of features, to which a classifier gives these classes."""
    centres = F.normalize(torch.randn(KINDS, 16, generator=generator(0, "centres")), dim=1)
    noise = 0.05 * torch.randn(len(groups), 16, generator=generator(0, "noise"))
    return View(F.normalize(centres[groups] + noise, dim=1), 5.0 * F.one_hot(classes, KINDS).float())


@pytest.mark.parametrize("kinds", [2, 5, KINDS])
def test_groups_are_the_classes_where_these_are_known(kinds: int) -> None:
    """Also if the target lacks some of them."""
    present = TRUE % kinds
    assert Footing.of(*own_groups(grouped(present, present))).share == 1.0


def test_groups_that_cut_across_the_classes_are_worse() -> None:
    """Unknown classes: k-means from the source's means agrees with the classifier, the target's own groups do not."""
    others = TRUE // 2 + 5 * (
        torch.arange(COUNT) // KINDS % 2
    )  # every group is given two classes, every class two groups
    view = grouped(others, TRUE)
    before = Sight(view, wrong(TRUE, 0.2), {"source": 0.1})
    assert Footing.of(before.clusters, view.classes).share > 0.7
    assert Footing.of(*own_groups(view)).share < 0.5
    verdict = judged(before, Sight(view, TRUE, {"source": 0.1}))
    assert verdict.word == "worse"
    assert verdict.reason.startswith("it could not read this target: k-means and the model before agree on 7")


def test_groups_of_a_large_target_are_those_of_a_part() -> None:
    many = torch.arange(30 * COUNT) % KINDS
    groups, classes = own_groups(grouped(many, many))
    assert len(groups) == len(classes) < len(many)
    assert torch.equal(groups, classes)


def test_classes_that_change_when_an_image_is_moved_are_worse() -> None:
    """Unknown classes that make groups as clean as the known ones."""
    improved = seen(wrong(TRUE, 0.2), TRUE)
    verdict = judged(HONEST, improved, Footing(agreement=0.6, chance=0.1))
    assert verdict.word == "worse"
    assert verdict.reason == (
        "it could not read this target: its classes of the images and of the same moved a little "
        "agree on 60% of the images, and would on 10% by chance"
    )


class Looks:
    """A model whose class of an image is a function of its pixels."""

    device = CPU

    def __init__(self, classify: Callable[[Tensor], Tensor]) -> None:
        self.classify = classify

    def see(self, images: Tensor) -> tuple[Tensor, Tensor]:
        scores = F.one_hot(self.classify(images), 4).float()
        return scores, scores


def test_steady_is_who_sees_what_a_move_does_not_change() -> None:
    """A move leaves the brightness of a plain image as it is, and the last digit of a sum of pixels to chance."""
    plain = ImageArray(torch.arange(4, dtype=torch.uint8).repeat(25)[:, None, None, None].mul(60).expand(-1, 3, 32, 32))
    by_brightness = steadiness(Looks(lambda images: (images.mean(dim=(1, 2, 3)) * 255 / 60).round().long()), plain)
    assert by_brightness == Footing(agreement=1.0, chance=0.25)
    noise = ImageArray(torch.randint(256, (400, 3, 32, 32), generator=generator(0, "noise"), dtype=torch.uint8))
    by_pixels = steadiness(Looks(lambda images: (images * 255).sum(dim=(1, 2, 3)).round().long() % 4), noise)
    assert by_pixels.share == pytest.approx(0.0, abs=0.1)


def test_steadiness_is_the_same_each_time_and_that_of_a_part_of_a_large_target() -> None:
    many = ImageArray(torch.randint(256, (2500, 3, 8, 8), generator=generator(0, "many"), dtype=torch.uint8))
    seen_images = []

    def classify(images: Tensor) -> Tensor:
        seen_images.append(len(images))
        return (images[:, 0, 3:5, 3:5].mean(dim=(1, 2)) * 4).long().clamp(max=3)

    first = steadiness(Looks(classify), many)
    assert sum(seen_images) == 4 * 2000  # still, and moved three times
    assert first == steadiness(Looks(classify), many)
    assert 0.2 < first.share < 0.95


@pytest.mark.parametrize("owner", ["source", "memory"])
def test_forgetting_is_worse_and_named(owner: str) -> None:
    improved = wrong(TRUE, 0.1)
    before, kept = (seen(classes, TRUE, source=0.02, memory=0.02) for classes in (HONEST.target.classes, improved))
    forgot = seen(improved, TRUE, **{"source": 0.02, "memory": 0.02, owner: 1.31})
    assert judged(before, kept).word == "better"
    assert judged(before, forgot) == Verdict("worse", f"the {owner}'s loss rose from 0.02 to 1.31")
    told = judged(before, forgot, violated=0.456).reason
    assert told == f"the {owner}'s loss rose from 0.02 to 1.31, and 46% of the steps opposed what was known"


def test_a_gain_that_costs_a_good_part_of_the_source_is_not_called_better() -> None:
    verdict = judged(HONEST, seen(TRUE, TRUE, source=0.8))
    assert verdict.word == "no change"
    assert verdict.reason.endswith("but the source's loss rose from 0.10 to 0.80")


@pytest.mark.parametrize("source", [0.1, math.nan])
def test_what_is_not_a_number_is_worse(source: float) -> None:
    broken = seen(TRUE, TRUE, source=source)
    if not math.isnan(source):
        broken.target.scores[3, 4] = math.nan
    assert judged(HONEST, broken) == Verdict("worse", "the model's scores are not numbers any more")


@pytest.mark.parametrize("count", [1, 9])
def test_of_a_few_images_nothing_is_told_but_forgetting(count: int) -> None:
    few = seen(wrong(TRUE, 0.4)[:count], TRUE[:count])
    assert judged(few, seen(TRUE[:count], TRUE[:count])).word == "no change"
    assert judged(few, seen(TRUE[:count], TRUE[:count], source=2.0)).word == "worse"


def test_density_is_that_of_a_slow_double_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = torch.rand(17, 4, generator=generator(0, "density"), dtype=torch.float64)
    total = 0.0
    for i, one in enumerate(outputs):
        near = torch.stack([F.cosine_similarity(one, other, dim=0) for j, other in enumerate(outputs) if j != i])
        p = (near / 0.05).softmax(dim=0)
        total -= float((p * p.log()).sum())
    monkeypatch.setattr(vitals_module, "_BLOCK", 5)
    assert neighbourhood_density(outputs.float()) == pytest.approx(total / 17, rel=1e-5)


def test_density_is_the_logarithm_of_the_neighbours() -> None:
    assert neighbourhood_density(torch.ones(9, 3)) == pytest.approx(math.log(8))
    assert neighbourhood_density(F.one_hot(torch.arange(12) % 3).float()) == pytest.approx(math.log(3), abs=1e-4)
    assert neighbourhood_density(torch.ones(1, 3)) == 0.0
    assert neighbourhood_density(1 - torch.eye(2)) == 0.0


def test_density_of_a_large_domain_is_that_of_the_same_part_of_it_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vitals_module, "_MOST", 50)
    outputs = torch.rand(400, 4, generator=generator(0, "large"))
    assert neighbourhood_density(outputs) == neighbourhood_density(outputs)
    assert neighbourhood_density(torch.ones(400, 3)) == pytest.approx(math.log(49))


def test_vitals_are_those_of_the_sight() -> None:
    told = vitals(HONEST, violated=0.25)
    assert told.entropy == mean_entropy(HONEST.target.scores)
    assert (told.agreement, told.source_loss, told.memory_loss, told.violated) == (HONEST.agreement, 0.1, None, 0.25)
    assert vitals(seen(TRUE, TRUE, memory=0.7)).memory_loss == 0.7


SOURCE = make("white", 192, "train")


def trained(method: Method, stage: Stage, epochs: int, folder: Path) -> None:
    folder.mkdir()
    plan = Plan(epochs, 32, 0, CPU, log_every=100, checkpoint_seconds=math.inf)
    method.begin(stage)
    with closing(RunLog(folder, 0, 0)) as log, Interruption() as interruption:
        task = Task("a stage", stage, 0, lambda step: None)
        train(method, task, plan, Journal(log), Operator(Silent(), interruption))
    method.eval()


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    """A network that knows the glyphs in white."""
    seed_everything(0, "network")
    network = build(Network(), len(CLASSES))
    stage = Stage(0, SOURCE, (), Joined([]), Augmentation(flip_probability=0.0))
    trained(Supervised(network, Supervised.Config()), stage, 12, tmp_path_factory.mktemp("taught") / "log")
    assert accuracy(network, make("white", 96, "test"), CPU) > 0.9
    return network


def verdict_on(network: Classifier, target: Tensor, folder: Path, **changes: Any) -> tuple[Verdict, Classifier]:
    """What is said of a real adaptation to these images, and the network that it made."""
    settings = {"rule": "sgd", "rate": 0.01, **changes}
    config = GrclPlus.Config(optimizer=Descent(**settings))
    method = METHODS["grcl_plus"](deepcopy(network), config)
    stage = Stage(1, SOURCE, (), ImageArray(target), Augmentation(flip_probability=0.0))
    before, steady = look_over(method.eval(), stage), steadiness(method, stage.target)
    trained(method, stage, 6, folder)
    return judge(before, look_over(method, stage), steady), method.network


def pixels_of(labelled: Labelled) -> Tensor:
    return labelled.images.read(torch.arange(len(labelled)))


def test_sabotage_is_worse(taught: Classifier, tmp_path: Path) -> None:
    honest, drawn = pixels_of(make("noisy", 96, "train")), generator(0, "sabotage")
    noise = torch.randint(256, honest.shape, generator=drawn, dtype=torch.uint8)
    order = torch.rand(96, 1, 32 * 32, generator=drawn).argsort(dim=2).expand(-1, 3, -1)
    shuffled = honest.flatten(2).gather(2, order).view_as(honest)
    for name, target in {"noise": noise, "shuffled": shuffled}.items():
        assert verdict_on(taught, target, tmp_path / name)[0].word == "worse", name
        usual = {"rule": "adam", "rate": gentle("grcl_plus")["grcl_plus.optimizer.rate"]}
        assert verdict_on(taught, target, tmp_path / f"{name}, as a learner", **usual)[0].word == "worse", name
    assert verdict_on(taught, honest, tmp_path / "rate", rate=0.3)[0].word == "worse"
    with pytest.raises(NotFinite):  # there is no model to judge
        verdict_on(taught, honest, tmp_path / "huge", rate=100.0)


def test_an_honest_adaptation_is_not_worse(taught: Classifier, tmp_path: Path) -> None:
    target, test = make("noisy", 96, "train"), make("noisy", 960, "test")
    verdict, network = verdict_on(taught, pixels_of(target), tmp_path / "honest")
    change = accuracy(network, test, CPU) - accuracy(taught, test, CPU)
    assert verdict.word == ("better" if change > 0.03 else "worse" if change < -0.03 else "no change"), change
