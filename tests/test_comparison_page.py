"""A comparison from files: numbers worked by hand, names inert in every format, and only finished runs count."""

import csv
import html
import io
import json
import math
import re
import shutil
from pathlib import Path

import pytest
import rich.console

from grcl.cli import main
from grcl.results.comparison import Comparison
from grcl.results.comparison_figures import first_target
from grcl.results.comparison_page import write_comparison
from grcl.results.comparison_tables import ACC, BWT, brief_table, differences_table, further_table, main_table
from grcl.results.conflict import conflicts_of
from grcl.results.families import sweeps
from grcl.results.figure_kinds import KINDS
from grcl.results.one_target import one_target, weights_table
from grcl.results.tables import as_rich
from grcl.runtime.errors import Refusal
from made_up import HOSTILE, MadeUp, Matrix, make_gallery, monitor, settings
from test_report import Page


def matrix(final: float, own: float) -> Matrix:
    """R of three domains: ACC = (0.9 + final + 0.6) / 3, BWT = final − own."""
    return [[0.9, 0.4, 0.4], [0.9, own, 0.5], [0.9, final, 0.6]]


@pytest.fixture
def two_methods(tmp_path: Path) -> Path:
    """ACC of a: 70, 72, 74 %; of b: 69, 70, 71 %. BWT of a: −3, 0, +3 points; of b: −10 each time."""
    for seed, (a, own, b) in enumerate([(0.60, 0.63, 0.57), (0.66, 0.66, 0.60), (0.72, 0.69, 0.63)]):
        MadeUp("a", matrix(a, own), seed).write(tmp_path)
        MadeUp("b", matrix(b, b + 0.1), seed).write(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All tables and figures at once."""
    make_gallery(folder := tmp_path_factory.mktemp("gallery"))
    write_comparison(folder)
    return folder


def test_a_line_of_the_first_target_is_of_that_target(tmp_path: Path) -> None:
    """Variants whose stages come in another order are left out of the figure."""
    for order in (["mnist", "usps"], ["usps", "mnist"]):
        MadeUp("a", matrix(0.7, 0.6), variant=f"targets={'-'.join(order)}", domains=["synnum", *order]).write(tmp_path)
    (group,) = Comparison.read(tmp_path).groups
    assert len(group.plain_rows) == 2
    (axes,) = first_target(group).axes
    assert axes.get_ylabel() == f"accuracy on {group.plain_rows[0].matrix.stages[1][0]} (%)"
    assert len(axes.get_legend_handles_labels()[1]) == 1


def test_mean_and_deviation_over_seeds(two_methods: Path) -> None:
    (group,) = Comparison.read(two_methods).groups
    table = main_table(group)
    assert table.header == ("method", "seeds", "ACC (%)", "BWT (points)", "steps", "images seen", "time", "memory")
    assert table.rows[0] == ("a", "3", "72.00 ± 2.00", "+0.00 ± 3.00", "200", "51,200", "60 s", "400 MB")
    assert table.rows[1][2:4] == ("70.00 ± 1.00", "-10.00 ± 0.00")
    assert table.best == {(0, 2), (0, 3)}
    assert brief_table(group).header == table.header[:4]


def test_further_measures_over_seeds(two_methods: Path) -> None:
    (group,) = Comparison.read(two_methods).groups
    rows = {row[0]: dict(zip(further_table(group).header, row, strict=True)) for row in further_table(group).rows}
    assert rows["b"]["Forgetting (points)"] == "+10.00 ± 0.00"
    assert rows["b"]["FWT (points)"] == "+10.00 ± 0.00"
    assert rows["a"]["TDA (%)"] == "63.00 ± 1.50"
    assert rows["a"]["TDG (%)"] == "45.00 ± 0.00"
    assert rows["b"]["FA (%)"] == "60.00 ± 3.00"


def test_paired_differences_have_students_interval(two_methods: Path) -> None:
    """Per seed a − b is 1, 2, 3 points: mean 2, deviation 1, t(0.975, 2) = 4.303, so the margin is 4.303/√3 = 2.48."""
    (group,) = Comparison.read(two_methods).groups
    table = differences_table(group, ACC)
    assert table.header == ("ACC of row minus column", "a", "b")
    assert table.rows == (("a", "–", "+2.0 [-0.5, +4.5]"), ("b", "-2.0 [-4.5, +0.5]", "–"))
    assert not table.best
    # BWT: 7, 10, 13 points; 10 ± 7.45 leaves out zero
    assert differences_table(group, BWT).rows[0] == ("a", "–", "+10.0 [+2.5, +17.5]")
    assert differences_table(group, BWT).best == {(0, 2), (1, 1)}


def test_one_seed_has_no_deviation_and_no_interval(tmp_path: Path) -> None:
    MadeUp("a", matrix(0.6, 0.6)).write(tmp_path)
    MadeUp("b", matrix(0.7, 0.6)).write(tmp_path)
    (group,) = write_comparison(tmp_path).groups
    assert main_table(group).rows[0][2:4] == ("70.00", "+0.00")
    assert differences_table(group, ACC).rows == ()
    assert "an interval needs two seeds or more" in (tmp_path / "table.md").read_text()


def test_differences_are_taken_over_common_seeds(two_methods: Path) -> None:
    shutil.rmtree(two_methods / "b" / "seed-0")
    (group,) = write_comparison(two_methods).groups
    # seeds 1 and 2: 2 and 3 points, t(0.975, 1) = 12.706
    assert differences_table(group, ACC).rows[0][2] == "+2.5 [-3.9, +8.9]"
    assert "Over 2 to 3 seeds." in (two_methods / "comparison.html").read_text()


def test_what_never_steps_has_nothing_to_forget(tmp_path: Path) -> None:
    MadeUp("source_only", matrix(0.4, 0.4), steps=0).write(tmp_path)
    MadeUp("grcl", matrix(0.5, 0.6)).write(tmp_path)
    (group,) = Comparison.read(tmp_path).groups
    assert main_table(group).rows[0][2:5] == ("63.33", "n/a", "0")
    assert main_table(group).rows[1][3] == "-10.00"


@pytest.mark.parametrize(
    ("benchmark", "acc", "bwt"), [("digits", "85.34 ± 0.10", "-1.00 ± 0.03"), ("mini", None, None)]
)
def test_the_papers_figures_stand_beside_ours(tmp_path: Path, benchmark: str, acc: str | None, bwt: str | None) -> None:
    five = [[0.5] * 5] * 5
    MadeUp("grcl", five, benchmark=benchmark).write(tmp_path)
    MadeUp("grcl", five, variant="memory.size=256", benchmark=benchmark).write(tmp_path)
    (group,) = Comparison.read(tmp_path).groups
    table = main_table(group)
    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    assert (rows[0].get("paper: ACC"), rows[0].get("paper: BWT")) == (acc, bwt)
    assert rows[1].get("paper: ACC") == ("–" if acc else None)


def test_the_papers_figures_are_not_set_beside_another_stream(tmp_path: Path) -> None:
    MadeUp("grcl", matrix(0.5, 0.5), benchmark="digits").write(tmp_path)
    (group,) = Comparison.read(tmp_path).groups
    assert group.paper is None


def test_the_papers_figures_are_not_set_beside_a_rehearsal(tmp_path: Path) -> None:
    MadeUp("grcl", [[0.5] * 5] * 5, benchmark="digits", settings={"rehearse": True}).write(tmp_path)
    (group,) = Comparison.read(tmp_path).groups
    assert group.paper is None


def test_rows_follow_the_paper_and_variants_their_numbers(tmp_path: Path) -> None:
    for method, variant in [
        ("own", ""),
        ("grcl", "memory.size=1024"),
        ("grcl", "memory.size=256"),
        ("grcl", ""),
        ("dann", ""),
    ]:
        MadeUp(method, matrix(0.5, 0.5), variant=variant).write(tmp_path)
    labels = [row.label for row in Comparison.read(tmp_path).rows]
    assert labels == ["dann", "grcl", "grcl, memory.size=256", "grcl, memory.size=1024", "own"]


def test_only_equal_domains_are_compared(tmp_path: Path) -> None:
    MadeUp("a", matrix(0.5, 0.5)).write(tmp_path)
    MadeUp("b", matrix(0.5, 0.5), domains=["d0", "d2", "d1"]).write(tmp_path)
    MadeUp("c", [[0.9, 0.5], [0.9, 0.9]]).write(tmp_path)
    comparison = write_comparison(tmp_path)
    assert [[row.method for row in group.rows] for group in comparison.groups] == [["a", "b"], ["c"]]
    assert comparison.main is comparison.groups[0]
    page = Page((tmp_path / "comparison.html").read_text())
    assert "Other streams" in page.text


def test_unfinished_runs_are_named_and_left_out(two_methods: Path) -> None:
    (two_methods / "b" / "seed-2" / "done").unlink()
    (two_methods / "c").mkdir()
    (two_methods / "c" / "seed-0.log").write_text("grcl: no cuda device here\n")
    (two_methods / "stage0" / "0123").mkdir(parents=True)
    (two_methods / "stage0" / "0123" / "config.json").write_text("{}")
    comparison = write_comparison(two_methods)
    assert comparison.unfinished == ("b/seed-2", "c/seed-0")
    assert [len(row.runs) for row in comparison.rows] == [3, 2]
    assert "2 unfinished, left out: b/seed-2, c/seed-0" in Page((two_methods / "comparison.html").read_text()).text


def test_a_folder_without_a_finished_run_makes_a_page(tmp_path: Path) -> None:
    write_comparison(tmp_path)
    assert "No run is finished yet." in Page((tmp_path / "comparison.html").read_text()).text
    assert (tmp_path / "table.csv").read_text().count("\n") == 1


def test_equal_files_give_equal_bytes(gallery: Path) -> None:
    names = ("comparison.html", "table.md", "table.tex", "table.csv")
    before = [(gallery / name).read_bytes() for name in names]
    write_comparison(gallery)
    assert [(gallery / name).read_bytes() for name in names] == before


def test_the_page_holds_every_row_and_figure(gallery: Path) -> None:
    page = Page((gallery / "comparison.html").read_text())
    for kind in KINDS.values():
        assert kind.title in page.text
    for method in ("source_only", "dann", "grcl", "memory.size=2048", "to_the_letter", HOSTILE[0]):
        assert method in page.text
    assert page.tags.count("svg") == len(KINDS)
    assert "script" not in page.tags


def test_nothing_is_loaded_from_outside(gallery: Path) -> None:
    source = (gallery / "comparison.html").read_text()
    links = [link for link in Page(source).links if not link.startswith("#")]
    assert all(link.startswith("./") and link.endswith("/report.html") for link in links)
    assert not re.search(r"@import|url\((?!#)", source)
    assert set(re.findall(r"https?:[^\s\"]*", source)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_links_within_the_page_resolve(gallery: Path) -> None:
    source = (gallery / "comparison.html").read_text()
    ids = re.findall(r' id="([^"]+)"', source)
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in Page(source).links if link.startswith("#")} <= set(ids)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Methods, variants and domains with every name that could do harm."""
    folder = tmp_path_factory.mktemp("hostile")
    for name in HOSTILE:
        MadeUp(name, matrix(0.5, 0.5), variant=name, benchmark=HOSTILE[0], domains=HOSTILE[1:4]).write(folder)
    write_comparison(folder)
    return folder


def test_hostile_names_are_text_in_the_page(hostile: Path) -> None:
    source = (hostile / "comparison.html").read_text()
    assert "script" not in Page(source).tags
    assert "\x1b" not in source
    for shown in ("<script>alert(1)</script>", "$x$", "\\x1b[31m", "[red]", "a|b", "=1+1"):
        assert shown in html.unescape(Page(source).text)


def test_hostile_names_are_text_in_the_tables(hostile: Path) -> None:
    markdown = (hostile / "table.md").read_text()
    assert "\\<script\\>alert(1)\\</script\\>" in markdown
    assert "a\\|b" in markdown
    assert "\x1b" not in markdown
    latex = (hostile / "table.tex").read_text()
    for shown in (
        r"\$x\$",
        r"{[}red{]}",
        r"a\textbar{}b",
        r"\textless{}script\textgreater{}",
        r"\textbackslash{}x1b{[}31m",
    ):
        assert shown in latex
    assert len([line for line in latex.splitlines() if line.endswith(r"\\")]) == len(HOSTILE) + 1


def test_no_cell_of_the_csv_is_a_formula(hostile: Path) -> None:
    rows = list(csv.DictReader(io.StringIO((hostile / "table.csv").read_text())))
    assert {row["method"] for row in rows} >= {"'=1+1", "a|b", "<script>alert(1)</script>"}
    cells = [
        cell for row in rows for name, cell in row.items() if name in ("benchmark", "domains", "method", "variant")
    ]
    assert not [cell for cell in cells if cell[:1] in "=+-@" and cell]
    assert {float(row["BWT (points) mean"]) for row in rows} == {0.0}


def test_hostile_names_are_text_in_the_terminal(hostile: Path) -> None:
    (group,) = Comparison.read(hostile).groups
    stream = io.StringIO()
    rich.console.Console(file=stream, width=200, force_terminal=True, color_system=None).print(
        as_rich(main_table(group))
    )
    assert "[red]" in stream.getvalue()
    assert "\x1b[31m" not in stream.getvalue()


def test_the_csv_has_plain_numbers(two_methods: Path) -> None:
    write_comparison(two_methods)
    row = next(csv.DictReader(io.StringIO((two_methods / "table.csv").read_text())))
    assert (row["method"], row["seeds"], row["ACC (%) mean"], row["ACC (%) deviation"]) == ("a", "3", "72.0", "2.0")
    assert (row["steps"], row["images"], row["seconds"], row["peak memory (bytes)"]) == (
        "200",
        "51200",
        "60",
        "419430400",
    )


def test_the_latex_table_sets_the_best_in_bold(two_methods: Path) -> None:
    write_comparison(two_methods)
    lines = (two_methods / "table.tex").read_text().splitlines()
    assert r"\begin{tabular}{@{}lrrrrrrr@{}}" in lines
    bold = r"a & 3 & \textbf{72.00} {\scriptsize $\pm$ 2.00} & \textbf{+0.00} {\scriptsize $\pm$ 3.00}"
    assert any(line.startswith(bold) for line in lines)
    assert "| a | 3 | **72.00 ± 2.00** |" in (two_methods / "table.md").read_text()


def test_sweeps_hold_all_else_equal(tmp_path: Path) -> None:
    for size in (256, 512):
        MadeUp("grcl", matrix(size / 1000, 0.5), variant=f"memory.size={size}", settings=settings(size)).write(tmp_path)
        MadeUp("gra", matrix(0.5, 0.5), variant=f"memory.size={size}", settings=settings(size)).write(tmp_path)
    other = settings(1024, grcl={"source_weight": 0.0})
    MadeUp("grcl", matrix(0.9, 0.5), variant="grcl.source_weight=0.0", settings=other).write(tmp_path)
    (group,) = Comparison.read(tmp_path).groups
    found = {
        sweep.label: [(value, round(each.mean, 4)) for value, each in sweep.points]
        for sweep in sweeps(group, "memory.size")
    }
    assert found["grcl"] == [(256, round(1.756 / 3, 4)), (512, round(2.012 / 3, 4))]
    assert set(found) == {"gra", "grcl"}
    assert sweeps(group, "training.epochs") == []


def test_the_weight_is_chosen_for_every_target_by_agreement_alone(tmp_path: Path) -> None:
    """The larger weight is more accurate on both targets; on the first, k-means and classifier agree less on it."""
    for target, agreements in (("t1", (0.9, 0.8)), ("t2", (0.7, 0.8))):
        for weight, agreement in zip((0.1, 1.0), agreements, strict=True):
            MadeUp(
                "multi_task",
                [[0.9, 0.5], [0.9 - 0.1 * weight, 0.6 + 0.1 * weight]],
                variant=f"multi_task.contrast_weight={weight},targets={target}",
                domains=["s", target],
                settings={"multi_task": {"contrast_weight": weight}},
                log=[monitor(agreement)],
            ).write(tmp_path)
        MadeUp("grcl", [[0.9, 0.5], [0.9, 0.8]], variant=f"targets={target}", domains=["s", target]).write(tmp_path)
    entries = one_target(Comparison.read(tmp_path))
    assert [entry.label for entry in entries] == ["multi_task", "grcl"]
    assert weights_table(entries).rows == (
        ("multi_task", "0.1", "89.0", "61.0", "80.0", "t1"),
        ("multi_task", "1", "80.0", "70.0", "80.0", "t2"),
    )
    assert math.isclose(entries[0].source.mean, (0.89 + 0.8) / 2)
    assert math.isclose(entries[0].target.mean, (0.61 + 0.7) / 2)
    assert math.isclose(entries[1].target.mean, 0.8)


def test_conflicts_weigh_every_step_alike(tmp_path: Path) -> None:
    """Two lines of three steps and of one: 2 of 4 steps violated, and the corrections are weighted alike."""
    lines = [
        {"violated/source": 1 / 3, "correction": 0.3, "cosines": [-0.5, 0.1, 0.2]},
        {"violated/source": 1.0, "correction": 0.7, "cosines": [-0.1]},
    ]
    log = [
        {
            "kind": "step",
            "stage": 1,
            "step": step,
            "steps": 4,
            "values": line,
            "cosines": {"cosine/source": line["cosines"]},
        }
        for step, line in zip((3, 4), lines, strict=True)
    ]
    MadeUp("grcl", matrix(0.5, 0.5), log=log).write(tmp_path)
    (row,) = Comparison.read(tmp_path).rows
    conflicts = conflicts_of(row)
    assert conflicts[1].cosines == {"source": [-0.5, 0.1, 0.2, -0.1]}
    assert conflicts[1].violated == {"source": pytest.approx(0.5)}
    assert conflicts[1].correction == pytest.approx(0.4)


@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_is_one_command(
    kind: str, gallery: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["figure", kind, str(gallery), "--out", str(tmp_path / kind)]) == 0
    paths = [tmp_path / f"{kind}.svg", tmp_path / f"{kind}.png"]
    assert capsys.readouterr().out.split() == list(map(str, paths))
    assert paths[0].read_text().startswith("<svg")
    assert paths[1].read_bytes().startswith(b"\x89PNG")


def test_a_figure_goes_beside_the_runs_or_to_the_file_named(two_methods: Path, tmp_path: Path) -> None:
    assert main(["figure", "bars", str(two_methods)]) == 0
    assert (two_methods / "bars.svg").exists()
    assert (two_methods / "bars.png").exists()
    assert main(["figure", "first-target", str(two_methods), "--out", str(tmp_path / "own.png")]) == 0
    assert not (tmp_path / "own.svg").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["barz", "."], "did you mean bars?"),
        (["bars", "nowhere"], "no folder nowhere"),
        (["memory", "."], "--vary memory.size="),
        (["one-target", "."], "grcl compare --one-target"),
        (["conflict", "."], "gradient constraints"),
        (["first-target"], "required: DIR"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_refused_with_what_it_needs(
    words: list[str],
    expected: str,
    two_methods: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(two_methods)
    assert main(["figure", *words]) == 2
    assert expected in capsys.readouterr().err


def test_a_damaged_run_is_named(two_methods: Path) -> None:
    (two_methods / "a" / "seed-0" / "accuracy.json").write_text("{")
    with pytest.raises(Refusal, match=r"a/seed-0/accuracy\.json is not a JSON object"):
        Comparison.read(two_methods)


def test_what_must_be_known_of_the_images_stands_below_every_table(two_methods: Path) -> None:
    for place in two_methods.rglob("accuracy.json"):
        first, *others = json.loads(place.read_text())["domains"]
        data = {first: {"note": "re-created <b>, not the original"}, **{name: {"note": ""} for name in others}}
        (place.parent / "environment.json").write_text(json.dumps({"data": data}))
    write_comparison(two_methods)
    told = f"{first}: re-created <b>, not the original"
    assert told in Page((two_methods / "comparison.html").read_text()).text
    assert f"% {told}\n" in (two_methods / "table.tex").read_text()
    assert told.replace("<", r"\<").replace(">", r"\>") in (two_methods / "table.md").read_text()
