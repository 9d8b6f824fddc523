"""Laws at the borders: degenerate constraints, odd settings, damaged files, empty reads."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD
from torch.testing import assert_close

from grcl.config import flags, resolve
from grcl.data.images import ImageArray, Joined
from grcl.gradients import descend_within, project_onto_cone
from grcl.memory.bank import FeatureBank
from grcl.methods import METHODS
from grcl.runtime.checkpoint import Checkpoints
from grcl.runtime.errors import Refusal
from grcl.runtime.run_directory import RunDirectory, variant_name


@pytest.mark.parametrize("method", METHODS)
def test_giving_a_setting_its_own_value_changes_nothing(method: str) -> None:
    settings = resolve("mini", method, {})
    for flag in flags(type(settings), settings):
        if flag.key not in ("benchmark", "method"):
            assert resolve("mini", method, {flag.key: flag.default}).as_json() == settings.as_json(), flag.key


def test_a_zero_constraint_among_three_asks_for_nothing() -> None:
    g = torch.tensor([2.0, -1.0, -2.0]).double()
    G = torch.tensor([[-1.0, 1.0, 2.0], [0.0, 0.0, 0.0], [1.0, 2.0, 0.0]]).double()
    assert_close(project_onto_cone(g, G).gradient, project_onto_cone(g, G[[0, 2]]).gradient)


@pytest.mark.parametrize("m", [3, 4])
def test_a_projected_gradient_stays_where_it_is_for_many_constraints(m: int) -> None:
    for seed in range(2000):
        source = torch.Generator().manual_seed(seed)
        g, G = torch.randn(6, generator=source).double(), torch.randn(m, 6, generator=source).double()
        z = project_onto_cone(g, G).gradient
        assert_close(project_onto_cone(z, G).gradient, z, atol=1e-9, rtol=0)


def test_a_plain_step_is_never_logged_as_opposing() -> None:
    def step(seed: int) -> dict[str, Tensor]:
        torch.manual_seed(seed)
        w, a, b = nn.Parameter(torch.randn(1000)), torch.randn(1000), torch.randn(1000)
        losses = {"new": lambda: ((a - 2 * b) * w).sum(), "old": lambda: (b * w).sum()}
        return descend_within(losses, {"new": 1.0}, ["old"], SGD([w], lr=0.01))

    for seed in range(50):
        log = step(seed)
        assert log["violated/old"] == 1
        assert log["applied/old"] == 0


@pytest.mark.parametrize(
    "overrides",
    [
        {"benchmark": "x"},
        {"method": "x"},
        {"method": "multi_task"},
        {"targets": 5},
        {"source": 5},
        {"source": ["mnist"]},
    ],
)
def test_what_cannot_be_run_is_refused(overrides: dict[str, Any]) -> None:
    with pytest.raises(Refusal):
        resolve("mini", "grcl", overrides)


@pytest.mark.parametrize("key", ["grcl.optimizer.rate", "grcl.contrast_weight", "grcl.contrast.temperature"])
def test_infinity_is_no_setting(key: str) -> None:
    with pytest.raises(Refusal):
        resolve("mini", "grcl", {key: "inf"})


def test_a_checkpoint_that_cannot_be_loaded_is_passed_over(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({"step": 1})
    checkpoints.save({"step": Path("x")})  # no plain value, so it is not loaded
    assert checkpoints.newest() == {"step": 1}


@pytest.mark.parametrize("content", ["", "{", "[]", "null"])
def test_a_damaged_config_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(Refusal):
        RunDirectory(tmp_path).claim({"seed": 0})


def test_in_64_bits_both_constraints_hold_in_64_bits() -> None:
    z = project_onto_cone(torch.tensor([-1.0, -1e-9]).double(), torch.eye(2).double()).gradient
    assert z.tolist() == [0, 0]


def test_three_constraints_that_are_obeyed_leave_every_bit() -> None:
    g, G = torch.tensor([0.0, 0.0, 1.0]).double(), torch.tensor([[0.0, 1, 0], [0, 1, 0], [0, 1, 1]]).double()
    assert torch.equal(project_onto_cone(g, G).gradient, g)


def test_constraints_that_are_all_zero_ask_for_nothing() -> None:
    g = torch.tensor([2.0, -1.0, -2.0])
    for m in range(5):
        assert torch.equal(project_onto_cone(g, torch.zeros(m, 3)).gradient, g)


@pytest.mark.parametrize("m", [2, 3])
def test_many_numbers_that_are_none_do_not_raise(m: int) -> None:
    z = project_onto_cone(torch.full((3,), torch.nan), torch.ones(m, 3)).gradient
    assert z.isnan().all()


def test_a_key_that_meets_its_opposite_stays_on_the_sphere() -> None:
    bank = FeatureBank(1, 4, 0.5)
    bank.fill(torch.ones(1, 4))
    bank.update(torch.tensor([0]), -bank.keys)
    assert_close(bank.keys.norm(dim=1), torch.ones(1))


def test_joined_images_can_be_read_not_at_all() -> None:
    joined = Joined([ImageArray(torch.zeros(3, 3, 4, 4, dtype=torch.uint8))])
    assert joined.read(torch.tensor([], dtype=torch.long)).shape == (0, 3, 4, 4)


def test_joined_images_have_no_negative_places() -> None:
    pixels = torch.arange(6, dtype=torch.uint8)[:, None, None, None].expand(6, 3, 2, 2)
    joined = Joined([ImageArray(pixels[:2]), ImageArray(pixels[2:])])
    with pytest.raises(IndexError):
        joined.read(torch.tensor([-1]))


@pytest.mark.parametrize("text", ["𠀀" * 80, "\udcff" * 200])
def test_a_variant_fits_in_a_file_system(text: str) -> None:
    assert len(variant_name({"network.name": text}).encode()) <= 255


def test_equal_settings_are_equal() -> None:
    assert resolve("mini", "grcl", {}) == resolve("mini", "grcl", {})


def test_a_wrong_section_is_refused_with_the_nearest() -> None:
    with pytest.raises(Refusal, match=r"did you mean grcl\.contrast\.temperature"):
        resolve("mini", "grcl", {"gcrl.contrast.temperature": 1})


@pytest.mark.parametrize("angle", [1e-6, 3e-6, 1e-5, 1e-4, 1e-3])
def test_nearly_opposite_constraints_in_32_bits(angle: float) -> None:
    worst = 0.0
    for seed in range(200):
        source = torch.Generator().manual_seed(seed)
        g = F.normalize(torch.randn(1, 8, generator=source).double())[0]
        G = F.normalize(torch.randn(2, 8, generator=source).double())
        across = F.normalize((G[1] - (G[1] @ G[0]) * G[0])[None])[0]
        G[1] = -(G[0] + angle * across)
        g, G = g.float(), G.float()
        z = project_onto_cone(g, G).gradient.double()
        worst = max(worst, -float((G.double() @ z).min()))
    assert worst < 5e-4, worst  # sqrt of the rounding
