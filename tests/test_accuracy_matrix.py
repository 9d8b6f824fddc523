"""The measures of R: worked by hand, and the laws that they keep."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grcl.results.accuracy_matrix import AccuracyMatrix

Stream = tuple[list[list[str]], list[list[float]]]
MEASURES = (
    "average_accuracy",
    "source_only_accuracy",
    "backward_transfer",
    "forgetting",
    "forward_transfer",
    "target_domain_adaptation",
    "target_domain_generalization",
    "forgetting_alleviation",
)


def matrix_of(stages: list[list[str]], rows: list[list[float]]) -> AccuracyMatrix:
    matrix = AccuracyMatrix.empty(stages)
    for row in rows:
        matrix = matrix.recorded(row)
    return matrix


def measures_of(matrix: AccuracyMatrix) -> dict[str, float | None]:
    return {name: getattr(matrix, name) for name in MEASURES}


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """Stages and their rows; the matrix is made in the test, because the type checks draw random numbers too."""
    sizes = [1, *draw(st.lists(st.integers(1, 3), max_size=4))]
    names = iter(f"d{index}" for index in range(sum(sizes)))
    stages = [[next(names) for _ in range(size)] for size in sizes]
    accuracy = st.integers(0, 1000).map(lambda correct: correct / 1000)
    row = st.lists(accuracy, min_size=sum(sizes), max_size=sum(sizes))
    return stages, draw(st.lists(row, min_size=1, max_size=len(sizes)))


def test_a_plain_stream_by_hand() -> None:
    rows = [[0.9, 0.5, 0.4, 0.3], [0.8, 0.7, 0.5, 0.2], [0.8, 0.8, 0.6, 0.5], [0.7, 0.6, 0.5, 0.8]]
    matrix = matrix_of([["s"], ["a"], ["b"], ["c"]], rows)
    assert matrix.is_complete
    assert measures_of(matrix) == pytest.approx(
        {
            "average_accuracy": (0.7 + 0.6 + 0.5 + 0.8) / 4,
            "source_only_accuracy": (0.9 + 0.5 + 0.4 + 0.3) / 4,
            "backward_transfer": ((0.6 - 0.7) + (0.5 - 0.6)) / 2,
            "forgetting": ((0.8 - 0.6) + (0.6 - 0.5)) / 2,
            "forward_transfer": ((0.5 - 0.4) + (0.5 - 0.3)) / 2,
            "target_domain_adaptation": (0.7 + 0.6 + 0.8) / 3,
            "target_domain_generalization": (0.5 + 0.5 + 0.5) / 3,
            "forgetting_alleviation": (0.8 + (0.6 + 0.5) / 2) / 2,
        }
    )


def test_a_compound_stage_by_hand() -> None:
    rows = [[0.9, 0.5, 0.4, 0.3], [0.8, 0.7, 0.5, 0.4], [0.7, 0.6, 0.6, 0.8]]
    matrix = matrix_of([["s"], ["a", "b"], ["c"]], rows)
    assert measures_of(matrix) == pytest.approx(
        {
            "average_accuracy": (0.7 + 0.6 + 0.6 + 0.8) / 4,
            "source_only_accuracy": (0.9 + 0.5 + 0.4 + 0.3) / 4,
            "backward_transfer": ((0.6 - 0.7) + (0.6 - 0.5)) / 2,
            "forgetting": (0.7 - 0.6) / 2,
            "forward_transfer": 0.4 - 0.3,
            "target_domain_adaptation": (0.7 + 0.5 + 0.8) / 3,
            "target_domain_generalization": (0.5 + 0.4 + 0.4) / 3,
            "forgetting_alleviation": (0.6 + 0.6) / 2,
        }
    )


def test_a_single_target_has_nothing_to_forget() -> None:
    matrix = matrix_of([["s"], ["a"]], [[0.9, 0.5], [0.8, 0.7]])
    assert matrix.backward_transfer is matrix.forgetting is matrix.forward_transfer is None
    assert matrix.forgetting_alleviation is None
    assert matrix.average_accuracy == pytest.approx(0.75)
    assert matrix.target_domain_adaptation == pytest.approx(0.7)
    assert matrix.target_domain_generalization == pytest.approx(0.5)


def test_the_source_alone_has_no_targets() -> None:
    matrix = matrix_of([["s"], ["a"]], [[0.9, 0.5]])
    assert not matrix.is_complete
    assert matrix.average_accuracy == matrix.source_only_accuracy == 0.9
    assert matrix.target_domain_adaptation is matrix.target_domain_generalization is None


@given(streams())
def test_nothing_transfers_if_the_rows_are_equal(stream: Stream) -> None:
    matrix = matrix_of(*stream)
    still = AccuracyMatrix(matrix.domains, matrix.stages, np.repeat(matrix.values[:1], matrix.finished, axis=0))
    assert still.average_accuracy == still.source_only_accuracy
    assert still.target_domain_adaptation == still.target_domain_generalization
    for change in (still.backward_transfer, still.forgetting, still.forward_transfer):
        assert change in (None, 0)


@given(streams(), st.randoms())
def test_the_order_of_the_columns_does_not_show(stream: Stream, random: Any) -> None:
    matrix = matrix_of(*stream)
    order = random.sample(range(len(matrix.domains)), len(matrix.domains))
    domains = tuple(matrix.domains[column] for column in order)
    assert measures_of(AccuracyMatrix(domains, matrix.stages, matrix.values[:, order])) == measures_of(matrix)


@given(streams())
def test_names_do_not_matter(stream: Stream) -> None:
    matrix = matrix_of(*stream)
    stages = [[f"{name}'" for name in stage] for stage in matrix.stages]
    assert measures_of(matrix_of(stages, matrix.values.tolist())) == measures_of(matrix)


@given(streams())
def test_an_unfinished_matrix_is_that_of_a_shorter_stream(stream: Stream) -> None:
    matrix = matrix_of(*stream)
    stages = [list(stage) for stage in matrix.stages[: matrix.finished]]
    learnt = [column for column, name in enumerate(matrix.domains) if matrix.stage_of[name] < matrix.finished]
    shorter = matrix_of(stages, matrix.values[:, learnt].tolist())
    assert shorter.is_complete
    assert measures_of(shorter) == measures_of(matrix)


@given(streams())
def test_forgetting_is_at_least_the_backward_loss(stream: Stream) -> None:
    matrix = matrix_of(*stream)
    if matrix.forgetting is not None and matrix.backward_transfer is not None:
        assert matrix.forgetting >= max(0, -matrix.backward_transfer) - 1e-12


@given(streams())
def test_json_keeps_every_bit(stream: Stream) -> None:
    matrix = matrix_of(*stream)
    assert AccuracyMatrix.from_json(json.loads(json.dumps(matrix.to_json()))) == matrix


def test_an_empty_matrix_survives_json() -> None:
    empty = AccuracyMatrix.empty([["s"], ["a", "b"]])
    assert AccuracyMatrix.from_json(empty.to_json()) == empty
    assert empty != AccuracyMatrix.empty([["s"], ["a"], ["b"]])


def test_a_recorded_row_leaves_the_old_matrix_alone() -> None:
    empty = AccuracyMatrix.empty([["s"], ["a"]])
    first = empty.recorded([0.9, 0.5])
    assert (empty.finished, first.finished) == (0, 1)
    with pytest.raises(ValueError, match="read-only"):
        first.values[0, 0] = 1.0


def test_no_row_no_accuracy() -> None:
    with pytest.raises(ValueError, match="record stage 0 first"):
        _ = AccuracyMatrix.empty([["s"]]).average_accuracy


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ({"domains": ["s"], "accuracy": [[0.5]]}, "lacks the list 'stages'"),
        ({"domains": ["s"], "stages": [["s"]], "accuracy": [[50.0]]}, "not percent"),
        ({"domains": ["s"], "stages": [["s"]], "accuracy": [[float("nan")]]}, "not a number"),
        ({"domains": ["s"], "stages": [["s"]], "accuracy": [[None]]}, "not a number"),
        ({"domains": ["s"], "stages": [["s"]], "accuracy": [["x"]]}, "hold no numbers"),
        ({"domains": ["s"], "stages": [["s"]], "accuracy": [[0.5], [0.5]]}, "at most 1 rows"),
        ({"domains": ["s"], "stages": [["s"]], "accuracy": [[0.5, 0.5]]}, "of 1 columns"),
        ({"domains": ["s"], "stages": ["s"], "accuracy": []}, "not a list of names"),
        ({"domains": ["s"], "stages": [["s"]], "accuracy": [0.5]}, "not a list of rows"),
        ({"domains": ["s", "a"], "stages": [["s"], ["a"]], "accuracy": [[0.5], [0.5, 0.5]]}, "differ in length"),
        ({"domains": ["s", "a"], "stages": [["s"], ["s", "a"]], "accuracy": []}, "'s' belongs to two stages"),
        ({"domains": ["s", "a"], "stages": [["s"]], "accuracy": []}, "are not the domains of the stages"),
        ({"domains": ["s", "s"], "stages": [["s"]], "accuracy": []}, "are not the domains of the stages"),
        ({"domains": ["s"], "stages": [["s"], []], "accuracy": []}, "has no domain"),
        ({"domains": ["s"], "stages": [[1]], "accuracy": []}, "not a list of names"),
    ],
)
def test_a_wrong_record_is_refused_with_a_sentence(record: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        AccuracyMatrix.from_json(record)


def test_a_wrong_row_is_refused() -> None:
    matrix = AccuracyMatrix.empty([["s"]])
    with pytest.raises(ValueError, match="give one per domain"):
        matrix.recorded([0.5, 0.5])
    with pytest.raises(ValueError, match="recorded already"):
        matrix.recorded([0.5]).recorded([0.5])
