"""Tables: the numbers as text, and names that stay text in every rendering."""

import io

import pytest
import rich.console

from grcl.results.accuracy_matrix import AccuracyMatrix
from grcl.results.tables import Table, as_markdown, as_rich, further_measures, matrix_table, points, summary_table


@pytest.fixture
def matrix() -> AccuracyMatrix:
    empty = AccuracyMatrix.empty([["s"], ["a", "b"], ["c"]])
    return empty.recorded([0.9, 0.5, 0.4, 0.3]).recorded([0.8, 0.7, 0.5, 0.4]).recorded([0.7, 0.6, 0.5, 0.8])


def terminal(table: Table, width: int = 200) -> str:
    stream = io.StringIO()
    rich.console.Console(file=stream, width=width, force_terminal=True, color_system=None).print(as_rich(table))
    return stream.getvalue()


def test_the_matrix_in_percent(matrix: AccuracyMatrix) -> None:
    table = matrix_table(matrix)
    assert table.header == ("% after stage", "s", "a", "b", "c")
    assert table.rows[1] == ("1 a+b", "80.0", "70.0", "50.0", "40.0")
    assert table.is_number == (False, True, True, True, True)


def test_the_summary_holds_the_headline_numbers(matrix: AccuracyMatrix) -> None:
    values = {name: value for name, value, _ in summary_table(matrix).rows}
    assert values == {"ACC (%)": "65.0", "BWT (points)": "-5.0", "Source model (%)": "52.5", "Change (points)": "+12.5"}


def test_what_is_undefined_says_so() -> None:
    single = AccuracyMatrix.empty([["s"], ["a"]]).recorded([0.9, 0.5]).recorded([0.9, 0.6])
    assert dict(zip(("ACC", "BWT"), (row[1] for row in summary_table(single).rows), strict=False))["BWT"] == "n/a"
    assert [measure.value for measure in further_measures(single)] == ["n/a", "n/a", "60.0", "50.0", "n/a"]


@pytest.mark.parametrize(("change", "text"), [(-0.0001, "+0.0"), (0.0, "+0.0"), (-0.017, "-1.7"), (0.091, "+9.1")])
def test_a_change_has_a_sign_and_no_negative_zero(change: float, text: str) -> None:
    assert points(change) == text


def test_markdown_aligns_numbers_and_escapes_names() -> None:
    table = Table(("name", "a|b"), (("mnist_m", "1.0"), ("_x_ <b> [l](u) `c` \\", "2.0"), ("line\nbreak", "3.0")))
    assert as_markdown(table) == (
        "| name | a\\|b |\n"
        "| --- | ---: |\n"
        "| mnist_m | 1.0 |\n"
        "| \\_x\\_ \\<b\\> \\[l\\](u) \\`c\\` \\\\ | 2.0 |\n"
        "| line\\\\nbreak | 3.0 |\n"
    )


def test_the_terminal_shows_markup_and_control_characters_as_text() -> None:
    shown = terminal(Table(("[red]", "\x1b[31mx"), (("[bold]b[/bold]", "\x07\u202e"),)))
    for text in ("[red]", "\\x1b[31mx", "[bold]b[/bold]", "\\x07\\u202e"):
        assert text in shown
    assert "\x1b[31m" not in shown
    assert "\x07" not in shown


def test_a_table_without_rows_has_its_header() -> None:
    assert as_markdown(Table(("a", "b"), ())).startswith("| a | b |\n")


def test_a_name_too_long_for_the_terminal_is_folded_not_cut() -> None:
    name = "grcl_plus/grcl_plus.self_training.first_share=0.9"
    shown = terminal(Table(("settings", "ACC (%)"), ((name, "71.4"),)), width=40).splitlines()
    assert "".join(line.replace("71.4", "").strip() for line in shown[3:]) == name
