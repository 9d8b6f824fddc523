"""Names come from strangers too: in a table, a report or a terminal they are text and nothing else."""

import csv
import io
import logging
import re
from pathlib import Path

import pytest
import rich.console

from grcl.cli import main
from grcl.results.comparison import Comparison
from grcl.results.latex import as_latex
from grcl.results.spreadsheet import as_csv
from grcl.results.tables import Table, as_markdown, as_rich
from grcl.runtime.progress import Live, Plain
from made_up import MadeUp

ESCAPE, RIGHT_TO_LEFT = "\x1b[31m", "\u202e"
FORMULAS = ("=cmd()", "+1", "-1", "@sum", "＝1", "\t=1")
NAMES = ("<script>alert(1)</script>", ESCAPE, "$\\input{secret}$", "two\nlines\r", RIGHT_TO_LEFT, "[red]", *FORMULAS)
TABLE = Table(("name", "value"), tuple((name, "1.0") for name in NAMES))


def is_inert(text: str) -> bool:
    """Nothing in it that a terminal or an editor would act upon but the ends of its lines."""
    return all(char.isprintable() or char == "\n" for char in text)


def test_in_latex_no_name_is_a_command() -> None:
    source = as_latex(TABLE)
    assert is_inert(source)
    assert r"\$\textbackslash{}input\{secret\}\$" in source
    commands = set(re.findall(r"\\([a-zA-Z]+)", source))
    assert commands == {
        *("begin", "end", "toprule", "midrule", "bottomrule"),
        *("textbackslash", "textless", "textgreater"),
    }
    assert len(re.findall(r"\\\\$", source, flags=re.MULTILINE)) == len(NAMES) + 1


def test_in_markdown_every_name_stays_in_its_row() -> None:
    source = as_markdown(TABLE)
    assert is_inert(source)
    assert len(source.splitlines()) == len(NAMES) + 2
    assert "<script>" not in source.replace("\\<", "")


def test_in_the_terminal_names_are_shown_and_not_obeyed() -> None:
    stream = io.StringIO()
    console = rich.console.Console(file=stream, width=200, force_terminal=True, color_system=None)
    console.print(as_rich(TABLE))
    assert is_inert(stream.getvalue())
    for shown in (r"\x1b[31m", r"two\nlines\r", r"\u202e", "[red]", "<script>"):
        assert shown in stream.getvalue()


def test_in_a_spreadsheet_no_name_is_a_formula(tmp_path: Path) -> None:
    for name in NAMES:
        MadeUp(name, [[0.5] * 3] * 3, variant=name, domains=(name, "b", "c")).write(tmp_path)
    text = as_csv(Comparison.read(tmp_path))
    assert is_inert(text)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == len(NAMES)
    cells = [row[column] for row in rows for column in ("benchmark", "domains", "method", "variant")]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "＝"))]


def test_errors_and_warnings_write_names_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hostile = f"{ESCAPE}{RIGHT_TO_LEFT}\n[red]"
    assert main(["run", "tiny", "--preset", f"{hostile}.toml"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert is_inert(said)
    preset = str(Path(__file__).with_name("tiny.toml"))
    assert main(["run", "tiny", "--preset", preset, "--network.weights", hostile, "--out", "a"]) == 2
    assert r"\x1b[31m\u202e\n[red]" in capsys.readouterr().err
    logging.getLogger("grcl.somewhere").warning("a file named %s", hostile)
    assert capsys.readouterr().err == "WARNING: a file named \\x1b[31m\\u202e\\n[red]\n"


def test_titles_of_stages_write_names_out(capsys: pytest.CaptureFixture[str]) -> None:
    title = f"stage 1, {ESCAPE}{RIGHT_TO_LEFT}[red]"
    plain = Plain()
    plain.stage(title, 1, 0, 1)
    plain.step(1, {}, 1.0)
    assert capsys.readouterr().err.startswith(r"stage 1, \x1b[31m\u202e[red]: step 1/1")
    stream = io.StringIO()
    live = Live(rich.console.Console(file=stream, width=200, force_terminal=True, color_system=None))
    live.stage(title, 1, 0, 1)
    live.step(1, {}, 1.0)
    live.close()
    assert r"stage 1, \x1b[31m\u202e[red]" in stream.getvalue()
    assert ESCAPE not in stream.getvalue()
