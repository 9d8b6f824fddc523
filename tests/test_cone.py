"""The projection of Eq. 8: its optimality conditions, other solvers, symmetries, degenerate cones and rounding."""

import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, nnls
from torch import Tensor
from torch.testing import assert_close

from grcl.gradients import project_onto_cone
from grcl.gradients.cone import dual_problem

Cone = tuple[list[int], list[list[int]]]

# Rows of small integers are often repeated, parallel, opposite or dependent, and never nearly so: an integer Gramian
# that is not singular has a determinant of at least 1, so in 64 bits at least eight digits are right.
PRECISION = 1e-8


@st.composite
def cones(draw: st.DrawFn, most: int = 4) -> Cone:
    """A gradient of one number or more and some constraints, none of them zero."""
    p, m = draw(st.integers(1, 6)), draw(st.integers(0, most))
    row = st.lists(st.integers(-3, 3), min_size=p, max_size=p)
    return draw(row), draw(st.lists(row.filter(any), min_size=m, max_size=m))


def tensors(cone: Cone) -> tuple[Tensor, Tensor]:
    gradient, rows = cone
    return torch.tensor(gradient).double(), torch.tensor(rows).reshape(len(rows), len(gradient)).double()


def random_cone(seed: int, p: int, m: int) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(p, generator=source), torch.randn(m, p, generator=source)


def by_trying_all(g: Tensor, G: Tensor) -> Tensor:
    """z is g without its part in the span of the constraints that it touches; of all such vectors in the cone,
    the nearest."""
    m, best = len(G), torch.zeros_like(g)
    for touched in (list(rows) for size in range(m + 1) for rows in combinations(range(m), size)):
        span = (
            torch.linalg.pinv(G[touched], rtol=1e-10) @ G[touched] if touched else torch.zeros(len(g), len(g)).double()
        )
        z = g - span @ g
        if (G @ z >= -PRECISION).all() and (z - g).norm() < (best - g).norm():
            best = z
    return best


def by_nnls(g: Tensor, G: Tensor) -> Tensor:
    """min ‖Gᵀu + g‖ over u ≥ 0, in as many dimensions as there are parameters."""
    return g + torch.from_numpy(nnls(G.numpy().T, -g.numpy())[0]) @ G


def by_slsqp(g: Tensor, G: Tensor) -> Tensor:
    """min ½‖z − g‖² subject to Gz ≥ 0, as it stands."""
    goal, rows = g.numpy(), G.numpy()
    found = minimize(
        lambda z: 0.5 * np.sum((z - goal) ** 2),
        x0=np.zeros_like(goal),
        jac=lambda z: z - goal,
        constraints={"type": "ineq", "fun": lambda z: rows @ z, "jac": lambda _: rows},
        method="SLSQP",
        options={"ftol": 1e-15},
    )
    return torch.from_numpy(found.x)


@settings(deadline=None)
@given(cones())
@example(([1, -1, 0, 0], [[0, 1, 0, 1], [-1, 2, 2, 3], [0, 0, 1, 0], [1, 0, 0, 0]]))  # a multiplier of -2e-32
def test_the_four_conditions_of_an_optimum_hold(cone: Cone) -> None:
    g, G = tensors(cone)
    z, u = project_onto_cone(g, G)
    assert (G @ z >= -PRECISION).all()
    assert (u >= 0).all()
    assert_close(u * (G @ z), torch.zeros_like(u), atol=PRECISION, rtol=0)
    assert_close(z, g + u @ G, atol=1e-12, rtol=1e-12)


@settings(deadline=None)
@given(cones())
def test_trying_all_faces_of_the_cone_finds_the_same_vector(cone: Cone) -> None:
    g, G = tensors(cone)
    assert_close(project_onto_cone(g, G).gradient, by_trying_all(g, G), atol=PRECISION, rtol=0)


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_nonnegative_least_squares_finds_the_same_vector(m: int) -> None:
    for seed in range(100):
        g, G = (part.double() for part in random_cone(seed, 12, m))
        assert_close(project_onto_cone(g, G).gradient, by_nnls(g, G), atol=1e-12, rtol=0)


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_a_general_solver_of_the_primal_finds_the_same_vector(m: int) -> None:
    for seed in range(5):
        g, G = (part.double() for part in random_cone(seed, 6, m))
        # SLSQP stops by its objective, which is flat at the optimum: it has half of the digits.
        assert_close(project_onto_cone(g, G).gradient, by_slsqp(g, G), atol=1e-6, rtol=0)


@settings(deadline=None)
@given(cones(), st.integers(0, 2**31 - 1))
def test_no_vector_of_the_cone_is_nearer(cone: Cone, seed: int) -> None:
    g, G = tensors(cone)
    z = project_onto_cone(g, G).gradient
    trials = 3 * torch.randn(200, len(g), generator=torch.Generator().manual_seed(seed)).double()
    inside = trials[(trials @ G.T >= 0).all(dim=1)]
    # The cone is convex, so points between z and its other vectors are in it too.
    between = torch.cat([inside, z + 0.01 * (inside - z), torch.zeros(1, len(g)).double()])
    assert ((between - g).norm(dim=1) >= (z - g).norm() - PRECISION).all()


@settings(deadline=None)
@given(cones(most=2))
def test_a_projected_gradient_stays_where_it_is(cone: Cone) -> None:
    g, G = tensors(cone)
    z = project_onto_cone(g, G).gradient
    assert_close(project_onto_cone(z, G).gradient, z, atol=PRECISION, rtol=0)


@settings(deadline=None)
@given(cones(), st.floats(1e-6, 1e6))
@example(([0, 0, 2], [[0, 1, 1], [1, 3, 2], [-2, -3, -3], [1, 0, 1]]), 2.0)  # three rows add up to zero
def test_a_longer_gradient_has_a_longer_projection(cone: Cone, factor: float) -> None:
    g, G = tensors(cone)
    z, scaled = project_onto_cone(g, G).gradient, project_onto_cone(factor * g, G).gradient
    assert_close(scaled / factor, z, atol=PRECISION, rtol=0)


@settings(deadline=None)
@given(cones(), st.lists(st.floats(1e-6, 1e6), min_size=4, max_size=4))
def test_the_scale_of_a_constraint_does_not_matter(cone: Cone, factors: list[float]) -> None:
    g, G = tensors(cone)
    scaled = G * torch.tensor(factors).double()[: len(G), None]
    assert_close(project_onto_cone(g, scaled).gradient, project_onto_cone(g, G).gradient, atol=PRECISION, rtol=0)


@settings(deadline=None)
@given(cones(), st.permutations(range(4)))
def test_the_order_of_the_constraints_does_not_matter(cone: Cone, order: list[int]) -> None:
    g, G = tensors(cone)
    order = [place for place in order if place < len(G)]
    (z, u), (z_again, u_again) = project_onto_cone(g, G), project_onto_cone(g, G[order])
    assert_close(z_again, z, atol=PRECISION, rtol=0)
    if torch.linalg.matrix_rank(G) == len(G):  # else the multipliers are not unique
        assert_close(u_again, u[order], atol=PRECISION, rtol=0)


@settings(deadline=None)
@given(cones(), st.integers(0, 3))
def test_saying_a_constraint_twice_changes_nothing(cone: Cone, which: int) -> None:
    g, G = tensors(cone)
    twice = torch.cat([G, 2 * G[which : which + 1]])
    assert_close(project_onto_cone(g, twice).gradient, project_onto_cone(g, G).gradient, atol=PRECISION, rtol=0)


@settings(deadline=None)
@given(cones())
def test_a_gradient_that_opposes_nothing_is_returned_as_it_is(cone: Cone) -> None:
    g, G = tensors(cone)
    slopes = G @ g
    G = (G * slopes.sign()[:, None])[slopes != 0]
    z, u = project_onto_cone(g, G)
    assert torch.equal(z, g)
    assert torch.equal(u, torch.zeros(len(G)).double())


@settings(deadline=None)
@given(cones())
def test_one_constraint_is_agem(cone: Cone) -> None:
    g, G = tensors(cone)
    for reference in G:
        dot = g @ reference
        expected = g if dot >= 0 else g - dot / (reference @ reference) * reference
        assert_close(project_onto_cone(g, reference[None]).gradient, expected, atol=1e-14, rtol=1e-14)


@pytest.mark.parametrize(
    ("gradient", "constraints", "expected"),
    [
        ([1, -1], [[0, 1]], [1, 0]),
        ([1, -1], [[0, 0]], [1, -1]),
        ([1, -1], [[0, 0], [0, 1]], [1, 0]),
        ([1, -1], [[0, 0], [0, 0], [0, 0]], [1, -1]),
        ([1, -1], [[0, 1], [0, 1]], [1, 0]),
        ([1, -1], [[0, 1], [0, 1], [0, 1]], [1, 0]),
        ([1, -1], [[0, 1], [0, 5]], [1, 0]),
        ([1, -1], [[0, 1], [0, -1]], [1, 0]),
        ([1, -1], [[0, 1], [0, -1], [0, 3]], [1, 0]),
        ([1, -1], [[0, 1], [0, -1], [-1, 0]], [0, 0]),
        ([-1, -1], [[1, 0], [0, 1]], [0, 0]),
        ([0, -2], [[0, 1]], [0, 0]),
        ([0, 2], [[0, 1]], [0, 2]),
        ([0, 2], [[1, 0], [1, 1]], [0, 2]),
        ([0, 0], [[0, 1], [1, 1]], [0, 0]),
        ([-2], [[3]], [0]),
        ([-2], [[3], [-1]], [0]),
        ([1, 2], [], [1, 2]),
    ],
)
def test_degenerate_cones_by_hand(gradient: list[int], constraints: list[list[int]], expected: list[int]) -> None:
    g, G = tensors((gradient, constraints))
    assert_close(project_onto_cone(g, G).gradient, torch.tensor(expected).double(), atol=1e-15, rtol=0)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("m", [2, 3])
def test_nearly_parallel_and_nearly_opposite_constraints(m: int, sign: int) -> None:
    angle = 1e-5
    # 1 − cos² ≈ angle² is made of entries of the Gramian that are rounded to 2⁻⁵³; a dozen of them add up.
    precision = 12 * 2**-53 / angle**2
    for seed in range(50):
        g, G = (part.double() for part in random_cone(seed, 8, m))
        G = G / G.norm(dim=1, keepdim=True)
        across = G[1] - (G[1] @ G[0]) * G[0]
        G[1] = sign * (G[0] + angle * across / across.norm())
        z = project_onto_cone(g, G).gradient
        assert_close(z, by_nnls(g, G), atol=precision * float(g.norm()), rtol=0)


def test_the_sign_that_the_paper_prints_turns_the_constraints_round() -> None:
    for seed in range(200):
        g, past = (part.double() for part in random_cone(seed, 100, 2))
        past = torch.where((past @ g > 0)[:, None], -past, past)
        printed = by_nnls(g, -past)  # Eq. 9 with G = −(g_s, g_dm), and ĝ = Gᵀu + g
        assert (past @ printed < 0).all()
        assert (past @ project_onto_cone(g, past).gradient >= -1e-12).all()


@pytest.mark.parametrize("p", [1, 2, 2**15 - 1, 2**15, 2**15 + 1, 2**16 - 1, 2**16, 2**16 + 1, 100_000])
def test_sums_over_any_number_of_parameters_are_exact(p: int) -> None:
    source = torch.Generator().manual_seed(p)
    whole = torch.randint(-9, 10, (3, p), generator=source)
    gram, slopes = dual_problem(whole[:2].float(), whole[2].float())
    assert torch.equal(gram, (whole[:2] @ whole[:2].T).double())
    assert torch.equal(slopes, (whole[:2] @ whole[2]).double())


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**31 - 1),
    p=st.sampled_from([1, 3, 100, 2**15 - 1, 2**15, 2**15 + 1, 2**16, 100_000]),
    length=st.floats(-8, 8),
    lengths=st.lists(st.floats(-8, 8), min_size=1, max_size=4),
)
def test_in_32_bits_the_constraints_hold_up_to_rounding(seed: int, p: int, length: float, lengths: list[float]) -> None:
    m, half_ulp = len(lengths), 2**-24
    g, G = random_cone(seed, p, m)
    g = g / g.norm() * 10**length
    G = G / G.norm(dim=1, keepdim=True) * 10 ** torch.tensor(lengths)[:, None]
    z, u = project_onto_cone(g, G)
    assert z.dtype == torch.float32
    # z = g + Σ uᵢGᵢ rounds each multiplier, each product and each sum once.
    parts = g.double().norm() + u.double() @ G.double().norm(dim=1)
    slack = G.double() @ z.double() / G.double().norm(dim=1)
    assert (slack >= -(m + 2) * half_ulp * parts).all()


def products(constraints: Tensor, gradient: Tensor) -> Tensor:
    gram, slopes = dual_problem(constraints, gradient)
    return torch.cat([gram, slopes[:, None]], dim=1)


@pytest.mark.parametrize("p", [2**20 - 1, 2**20, 2**20 + 255, 2**20 + 257])
def test_long_vectors_are_summed_in_blocks_and_lose_nothing_that_matters(p: int) -> None:
    """Integers are exact; of other numbers the error is far below the resolution at which two constraints are one."""
    g, G = random_cone(p, p, 2)
    whole_g, whole_G = g.mul(3).round(), G.mul(3).round()
    assert torch.equal(products(whole_G, whole_g), whole_G.double() @ torch.cat([whole_G, whole_g[None]]).double().T)
    wide = torch.cat([G, g[None]]).double()
    lengths = wide.norm(dim=1)
    error = products(G, g) - wide[:2] @ wide.T
    assert (error / lengths[:2].outer(lengths)).abs().max() < 1e-8


def test_the_result_can_take_the_place_of_the_gradient() -> None:
    g, G = random_cone(0, 1000, 2)
    g -= G.sum(dim=0)
    expected = project_onto_cone(g, G).gradient
    found = project_onto_cone(g, G, out=g).gradient
    assert found.data_ptr() == g.data_ptr()
    assert torch.equal(g, expected)


FORBIDDEN = ("scipy", "sklearn", "pydantic", "matplotlib", "jinja2", "rich", "skimage", "mlxtend", "tensorboard")


def run_python(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_the_projection_needs_torch_alone() -> None:
    run_python(f"import sys, grcl.gradients; found = set({FORBIDDEN}) & set(sys.modules); assert not found, found")


def test_the_projection_works_without_jaxtyping() -> None:
    run_python(
        "import sys; sys.modules['jaxtyping'] = None\n"
        "import torch; from grcl.gradients import project_onto_cone\n"
        "z = project_onto_cone(torch.tensor([1.0, -1.0]), torch.tensor([[0.0, 1.0]])).gradient\n"
        "assert z.tolist() == [1.0, 0.0], z"
    )
