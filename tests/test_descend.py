"""One verb for an update: plain torch does the same, nothing leaks, and constraints hold for the step as taken."""

import copy
import inspect
import weakref
from collections.abc import Callable, Iterable

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer
from torch.testing import assert_close

from grcl.gradients import assign, descend, descend_within, flatten, gradient_of, project_onto_cone

Build = Callable[[Iterable[Tensor]], Optimizer]

OPTIMIZERS: dict[str, Build] = {
    "sgd": lambda parameters: SGD(parameters, lr=0.1),
    "momentum": lambda parameters: SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda parameters: Adam(parameters, lr=0.01, weight_decay=0.01),
}
every_optimizer = pytest.mark.parametrize("build", OPTIMIZERS.values(), ids=list(OPTIMIZERS))


def small_network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def some_loss(network: nn.Module, step: int = 0) -> Tensor:
    inputs = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
    loss: Tensor = network(inputs).square().mean()
    return loss


def weights(module: nn.Module) -> Tensor:
    parameters = list(module.parameters())
    return flatten(parameters, parameters)


@pytest.mark.parametrize("images_in", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("network_in", [torch.contiguous_format, torch.channels_last])
def test_flattened_gradients_are_assigned_to_where_they_came_from(
    network_in: torch.memory_format, images_in: torch.memory_format
) -> None:
    """Autograd may give a gradient in another order in memory than its parameter's, as of a convolution whose images
    have their channels last."""
    torch.manual_seed(0)
    network = nn.Conv2d(3, 5, 3).to(memory_format=network_in)  # type: ignore[call-overload]
    images = torch.randn(2, 3, 8, 8).to(memory_format=images_in)
    parameters = list(network.parameters())
    gradients = torch.autograd.grad(network(images).square().sum(), parameters)
    assign(parameters, flatten(gradients, parameters))
    assert all(torch.equal(p.grad, g) for p, g in zip(parameters, gradients, strict=True) if p.grad is not None)
    assert all(parameter.grad is not None for parameter in parameters)


class Bowls:
    """Losses ½ Σ aᵢ(wᵢ − cᵢ)² with 0 ≤ aᵢ < 1, in 64 bits."""

    def __init__(self, seed: int, *names: str) -> None:
        source = torch.Generator().manual_seed(seed)
        self.w = nn.Parameter(torch.randn(5, generator=source).double())
        self.curvatures = {name: torch.rand(5, generator=source).double() for name in names}
        self.centres = {name: torch.randn(5, generator=source).double() for name in names}

    def loss(self, name: str) -> Tensor:
        return 0.5 * (self.curvatures[name] * (self.w - self.centres[name]) ** 2).sum()

    def losses(self) -> dict[str, Callable[[], Tensor]]:
        return {name: lambda name=name: self.loss(name) for name in self.centres}  # type: ignore[misc]

    def value(self, name: str) -> float:
        return self.loss(name).item()

    def gradient(self, name: str) -> Tensor:
        """By hand, without autograd."""
        return self.curvatures[name] * (self.w.detach() - self.centres[name])


def test_a_gradient_is_one_vector_in_the_order_of_the_parameters() -> None:
    network, out = small_network(), torch.empty(3 * 4 + 4 + 4 * 2 + 2)
    parameters = list(network.parameters())
    reached = gradient_of(some_loss(network), parameters, out=out)
    some_loss(network).backward()
    assert torch.equal(out, torch.cat([p.grad.flatten() for p in parameters if p.grad is not None]))
    assert reached == [True] * 4


def test_a_parameter_without_a_part_in_the_loss_has_a_zero_gradient_and_is_told() -> None:
    used, unused, out = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3)), torch.full((5,), torch.nan)
    assert gradient_of((2 * used).sum(), [used, unused], out=out) == [True, False]
    assert out.tolist() == [2, 2, 0, 0, 0]
    assign([used, unused], out, [True, False])
    assert used.grad is not None
    assert used.grad.tolist() == [2, 2]
    assert unused.grad is None


@every_optimizer
def test_descend_is_backward_and_step(build: Build) -> None:
    ours, theirs = small_network(), small_network()
    our_optimizer, their_optimizer = build(ours.parameters()), build(theirs.parameters())
    for step in range(5):
        descend(some_loss(ours, step), our_optimizer)
        their_optimizer.zero_grad()
        some_loss(theirs, step).backward()
        their_optimizer.step()
        assert torch.equal(weights(ours), weights(theirs))


@every_optimizer
def test_two_optimizers_at_once_are_one_over_both(build: Build) -> None:
    split, whole = small_network(), small_network()
    first, second, both = build(split[0].parameters()), build(split[2].parameters()), build(whole.parameters())
    for step in range(3):
        descend(some_loss(split, step), first, second)
        descend(some_loss(whole, step), both)
    assert torch.equal(weights(split), weights(whole))


@every_optimizer
def test_only_the_given_parameters_move(build: Build) -> None:
    network = small_network()
    encoder, head = (copy.deepcopy(weights(network[part])) for part in (0, 2))
    descend(some_loss(network), build(network[2].parameters()))
    assert torch.equal(weights(network[0]), encoder)
    assert not torch.equal(weights(network[2]), head)


@every_optimizer
def test_nothing_leaks_from_one_phase_to_another(build: Build) -> None:
    """Two phases take turns; whatever is left in `.grad` before either of them makes no difference."""

    def train(rubbish: float | None) -> Tensor:
        network = small_network()
        encoder, head = build(network[0].parameters()), build(network[2].parameters())
        for step in range(6):
            if rubbish is not None:
                for parameter in network.parameters():
                    parameter.grad = torch.full_like(parameter, rubbish)
            descend(some_loss(network, step), encoder if step % 2 else head)
        return weights(network)

    assert torch.equal(train(rubbish=torch.nan), train(rubbish=None))


@pytest.mark.parametrize("is_within", [False, True])
def test_what_no_loss_reaches_neither_decays_nor_coasts(is_within: bool) -> None:
    network = small_network()
    optimizer = SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    descend(some_loss(network), optimizer)  # now both layers have momentum
    encoder, head = weights(network[0]), weights(network[2])

    def on_the_encoder() -> Tensor:
        return some_loss(network[0])

    if is_within:
        descend_within({"a": on_the_encoder, "b": on_the_encoder}, {"a": 1.0}, ["b"], optimizer)
    else:
        descend(on_the_encoder(), optimizer)
    assert torch.equal(weights(network[2]), head)
    assert not torch.equal(weights(network[0]), encoder)


@every_optimizer
def test_without_constraints_it_descends_the_weighted_sum(build: Build) -> None:
    ours, theirs = small_network().double(), small_network().double()
    our_optimizer, their_optimizer = build(ours.parameters()), build(theirs.parameters())

    def loss(network: nn.Module, step: int) -> Tensor:
        inputs = torch.randn(8, 3, generator=torch.Generator().manual_seed(step)).double()
        value: Tensor = network(inputs).square().mean()
        return value

    for step in range(5):
        losses = {"a": lambda s=step: loss(ours, s), "b": lambda s=step: loss(ours, s + 100)}
        descend_within(losses, {"a": 0.3, "b": 2.0}, [], our_optimizer)
        descend(0.3 * loss(theirs, step) + 2.0 * loss(theirs, step + 100), their_optimizer)
    assert_close(weights(ours), weights(theirs), atol=1e-12, rtol=0)


@settings(deadline=None)
@given(st.integers(0, 2**31 - 1), st.floats(1e-4, 0.5), st.integers(0, 3))
def test_a_plain_step_raises_no_constraint_but_by_curvature(seed: int, rate: float, count: int) -> None:
    constraints = ["one", "two", "three"][:count]
    bowls = Bowls(seed, "new", *constraints)
    start, slopes = bowls.w.detach().clone(), {name: bowls.gradient(name) for name in constraints}
    before = {name: bowls.value(name) for name in constraints}
    descend_within(bowls.losses(), {"new": 1.0}, constraints, SGD([bowls.w], lr=rate))
    step = bowls.w.detach() - start
    for name in constraints:
        assert float(slopes[name] @ step) <= 1e-12  # to first order
        assert bowls.value(name) - before[name] <= 0.5 * float(step @ step) + 1e-12  # aᵢ ≤ 1


@settings(deadline=None)
@given(st.integers(0, 2**31 - 1), st.floats(0, 2))
def test_the_log_tells_what_happened(seed: int, source_weight: float) -> None:
    bowls = Bowls(seed, "contrast", "source", "memory")
    optimizer, weights_of = SGD([bowls.w], lr=0.1, momentum=0.9), {"contrast": 1.0, "source": source_weight}
    for _ in range(3):
        start, values = bowls.w.detach().clone(), {name: bowls.value(name) for name in bowls.centres}
        g = bowls.gradient("contrast") + source_weight * bowls.gradient("source")
        G = torch.stack([bowls.gradient("source"), bowls.gradient("memory")])
        log = descend_within(bowls.losses(), weights_of, ["source", "memory"], optimizer)
        applied = start - bowls.w.detach()

        assert {name: float(log[f"loss/{name}"]) for name in values} == values
        multipliers, _ = nnls(G.numpy().T, -g.numpy())
        # What is logged has 24 bits.
        change = float((torch.from_numpy(multipliers) @ G).norm() / g.norm())
        assert float(log["correction"]) == pytest.approx(change, rel=1e-6, abs=1e-9)
        for row, name, multiplier in zip(G, ("source", "memory"), multipliers, strict=True):
            assert float(log[f"multiplier/{name}"]) == pytest.approx(multiplier, rel=1e-6, abs=1e-9)
            assert float(log[f"violated/{name}"]) == float(g @ row < 0)
            assert float(log[f"cosine/{name}"]) == pytest.approx(float(g @ row / (g.norm() * row.norm())), abs=1e-6)
            if abs(float(row @ applied)) > 1e-9:  # on the border itself rounding decides
                assert float(log[f"applied/{name}"]) == float(row @ applied < 0)


def test_every_loss_is_computed_once_and_logged_once() -> None:
    w, calls = nn.Parameter(torch.ones(2)), []

    def loss(name: str) -> Tensor:
        calls.append(name)
        return w.sum()

    losses = {name: lambda name=name: loss(name) for name in ("contrast", "source", "memory")}
    log = descend_within(losses, {"contrast": 1.0, "source": 1.0}, ["source", "memory"], SGD([w], lr=0.1))
    assert sorted(calls) == ["contrast", "memory", "source"]
    assert sorted(name for name in log if name.startswith("loss/")) == ["loss/contrast", "loss/memory", "loss/source"]


def test_momentum_can_break_a_promise_that_the_gradient_keeps() -> None:
    w = nn.Parameter(torch.zeros(2))
    optimizer = SGD([w], lr=0.1, momentum=0.9)
    right, up = (lambda: w[0]), (lambda: w[1])
    descend_within({"new": lambda: -w[1], "old": right}, {"new": 1.0}, ["old"], optimizer)
    log = descend_within({"new": right, "old": up}, {"new": 1.0}, ["old"], optimizer)
    assert log["violated/old"] == log["multiplier/old"] == 0
    assert log["applied/old"] == 1


@every_optimizer
@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**31 - 1), count=st.integers(1, 3))
@example(seed=1622, count=3)  # large multipliers, whose own rounding counts
def test_a_projected_step_keeps_its_promise_whatever_the_optimizer(build: Build, seed: int, count: int) -> None:
    """It is the nearest to what the optimiser would have done, by the projection's own laws."""
    constraints = ["one", "two", "three"][:count]
    bowls, free = Bowls(seed, "new", *constraints), Bowls(seed, "new", *constraints)
    optimizer, their_optimizer = build([bowls.w]), build([free.w])
    for _ in range(4):
        G = torch.stack([bowls.gradient(name) for name in constraints])
        start, slope = bowls.w.detach().clone(), bowls.gradient("new")
        free.w.data.copy_(start)
        log = descend_within(bowls.losses(), {"new": 1.0}, constraints, optimizer, projected="step")
        descend(free.loss("new"), their_optimizer)
        wanted, applied = start - free.w.detach(), start - bowls.w.detach()
        assert (G @ applied >= -1e-12).all()
        assert_close(applied, project_onto_cone(wanted, G).gradient, atol=1e-10, rtol=0)
        for name, row in zip(constraints, G, strict=True):
            assert log[f"applied/{name}"] == 0
            assert log[f"violated/{name}"] == float(wanted @ row < 0)
            assert_close(log[f"cosine/{name}"].double(), slope @ row / (slope.norm() * row.norm()), atol=1e-5, rtol=0)


def test_only_a_gradient_or_a_step_is_projected() -> None:
    bowls, unchecked = (
        Bowls(0, "new", "old"),
        inspect.unwrap(descend_within),
    )  # as users have it, without checks of types
    with pytest.raises(ValueError, match="projected = 'Step'; it takes gradient or step"):
        unchecked(bowls.losses(), {"new": 1.0}, ["old"], SGD([bowls.w], lr=0.1), projected="Step")


def test_without_momentum_it_is_the_same_to_project_the_step() -> None:
    ways = [Bowls(3, "new", "old"), Bowls(3, "new", "old")]
    for bowls, projected in zip(ways, ("gradient", "step"), strict=True):
        optimizer = SGD([bowls.w], lr=0.1)
        logs = [
            descend_within(bowls.losses(), {"new": 1.0}, ["old"], optimizer, projected=projected)  # type: ignore[arg-type]
            for _ in range(20)
        ]
        assert any(log["violated/old"] for log in logs)
    assert_close(ways[0].w, ways[1].w, atol=1e-12, rtol=0)


@pytest.mark.parametrize("projected", ["gradient", "step"])
@pytest.mark.parametrize("sizes", [(70_000, 200_000), (200_000, 70_000), (30, 50)])
@pytest.mark.parametrize("constrained", [0, 1])
def test_what_no_constraint_reaches_is_passed_over_without_a_trace(
    projected: str, sizes: tuple[int, int], constrained: int
) -> None:
    """The same bits as with constraints that reach all parameters, some of them with a gradient of zero."""

    def train(is_everything_reached: bool) -> tuple[Tensor, list[dict[str, Tensor]]]:
        source = torch.Generator().manual_seed(0)
        parameters = [nn.Parameter(torch.randn(size, generator=source)) for size in sizes]
        pulls = {name: [torch.randn(size, generator=source) for size in sizes] for name in ("new", "old", "older")}

        def loss(name: str) -> Tensor:
            parts = (0, 1) if name == "new" else (constrained,)
            used = [0.5 * (parameters[part] - pulls[name][part]).square().mean() for part in parts]
            zeros = [0 * parameter.sum() for parameter in parameters] if is_everything_reached else []
            return torch.stack([*used, *zeros]).sum()

        optimizer = SGD(parameters, lr=0.5, momentum=0.9)
        losses = {name: (lambda name=name: loss(name)) for name in pulls}
        weights = {"new": 1.0, "old": -2.0}
        logs = [descend_within(losses, weights, ["old", "older"], optimizer, projected) for _ in range(4)]  # type: ignore[arg-type]
        return flatten(parameters, parameters), logs

    (ours, our_logs), (full, full_logs) = train(is_everything_reached=False), train(is_everything_reached=True)
    assert torch.equal(ours, full)
    assert all(log["violated/old"] for log in our_logs)
    for log, expected in zip(our_logs, full_logs, strict=True):
        assert {name: float(value) for name, value in log.items()} == {
            name: float(value) for name, value in expected.items()
        }


def test_one_graph_is_alive_at_a_time() -> None:
    class Saved:
        def __init__(self, tensor: Tensor) -> None:
            self.tensor = tensor

    alive: weakref.WeakSet[Saved] = weakref.WeakSet()
    network, counts = small_network(), []

    def pack(tensor: Tensor) -> Saved:
        saved = Saved(tensor)
        alive.add(saved)
        return saved

    def loss(step: int) -> Tensor:
        counts.append(len(alive))
        built = some_loss(network, step)
        assert len(alive) > 0
        return built

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved.tensor):
        losses = {"a": lambda: loss(0), "b": lambda: loss(1), "c": lambda: loss(2)}
        descend_within(losses, {"a": 1.0}, ["b", "c"], SGD(network.parameters(), lr=0.1))
    assert counts == [0, 0, 0]
    assert len(alive) == 0


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_loss_in_parts_is_their_sum(count: int) -> None:
    def step(in_parts: bool) -> tuple[Tensor, dict[str, Tensor]]:
        network = small_network().double()

        def part(k: int) -> Tensor:
            loss: Tensor = network(torch.eye(3)[k : k + 1].double()).square().sum()
            return loss

        def new() -> Tensor | Iterable[Tensor]:
            return map(part, range(count)) if in_parts else torch.stack([part(k) for k in range(count)]).sum()

        old = lambda: -network[0](torch.ones(1, 3).double()).sum()
        log = descend_within({"new": new, "old": old}, {"new": 1.0}, ["old"], SGD(network.parameters(), lr=0.1))
        return weights(network), log

    (ours, our_log), (whole, whole_log) = step(in_parts=True), step(in_parts=False)
    assert_close(ours, whole, atol=1e-14, rtol=0)
    assert_close(our_log, whole_log, atol=1e-6, rtol=0)


def test_a_network_may_change_its_precision_between_steps() -> None:
    network = nn.Linear(3, 1)
    optimizer = SGD(network.parameters(), lr=0.1)
    images = torch.randn(4, 3)
    for dtype in (torch.float32, torch.float64):
        network.to(dtype)
        losses = {
            "new": lambda d=dtype: network(images.to(d)).square().mean(),
            "old": lambda d=dtype: -network(images.to(d)).mean(),
        }
        descend_within(losses, {"new": 1.0}, ["old"], optimizer)
        assert network.weight.grad is not None
        assert network.weight.grad.dtype == dtype


def test_the_order_of_weights_in_memory_makes_no_difference() -> None:
    def train(memory_format: torch.memory_format) -> list[Tensor]:
        torch.manual_seed(0)
        network = nn.Conv2d(3, 4, 3).double()
        network.weight.data = network.weight.data.contiguous(memory_format=memory_format)
        optimizer = SGD(network.parameters(), lr=0.1, momentum=0.9)
        images = torch.randn(6, 3, 5, 5).double()
        losses = {"new": lambda: network(images[:3]).square().mean(), "old": lambda: -network(images[3:]).mean()}
        for _ in range(3):
            log = descend_within(losses, {"new": 1.0}, ["old"], optimizer)
        assert network.weight.is_contiguous(memory_format=memory_format)
        assert network.weight.grad is not None
        assert network.weight.grad.stride() == network.weight.stride()
        return [*network.parameters(), *log.values()]

    for ours, theirs in zip(train(torch.channels_last), train(torch.contiguous_format), strict=True):
        assert_close(ours, theirs, atol=1e-7, rtol=1e-6)
