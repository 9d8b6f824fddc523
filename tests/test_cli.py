"""The command line: it answers at once, refuses in one sentence, and shows what a newcomer needs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from grcl.cli import main
from terminal import shown_on_a_terminal
from tiny import PRESET

QUICK = ["--preset", PRESET, "--training.epochs", "1", "--stage0.epochs", "1", "--memory.size", "16"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs go to ./runs: every test has a current directory of its own."""
    monkeypatch.chdir(tmp_path)


def tiny_run(*words: str) -> str:
    """A program that runs the command on `tiny` in a process of its own."""
    command = ["run", "tiny", *words]
    return f"import sys, tiny; tiny.register(); from grcl.cli import main; sys.exit(main({command!r}))"


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one sentence with which a command is refused before anything is done."""
    assert main(list(words)) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    (line,) = streams.err.splitlines()
    assert line.startswith("grcl: ")
    assert not Path("runs").exists()
    return line


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["rum"], "did you mean run?"),
        (["run", "mimi"], "did you mean mini?"),
        (["run", "--method", "gcrl"], "did you mean grcl?"),
        (["run", "--epochs", "3"], "did you mean training.epochs?"),
        (["run", "--training.epoch", "3"], "did you mean training.epochs?"),
        (["run", "--grcl.source-wieght", "3"], "did you mean grcl.source_weight?"),
        (["run", "--metod", "grcl"], "did you mean method?"),
        (["run", "--training.epochs", "-3"], "training.epochs = '-3': input should be greater than 0"),
        (["run", "--training.epochs", "many"], "training.epochs = 'many'"),
        (["run", "--training.epochs"], "expected one argument"),
        (["run", "--training.device", "gpu"], "training.device = 'gpu'"),
        (["run", "--memory.selection", "best"], "memory.selection = 'best'"),
        (["run", "--grcl.contrast.key-momentum", "1"], "grcl.contrast.key_momentum = '1'"),
        (["run", "--augmentation.blur-sigma-min", "3"], "blur_sigma_max"),
        (["run", "--source", "mnits"], "did you mean mnist?"),
        (["run", "--targets", "mnist", "mnist"], "comes twice"),
        (["run", "--source", "mnist", "--targets", "mnist"], "comes twice"),
        (["run", "--network.name", "lenet"], "did you mean lenet5?"),
        (["run", "--preset", "nothing"], "no preset 'nothing'"),
        (["run", "--data", "nowhere"], "no folder at nowhere"),
        (["run", "mini", "extra"], "unexpected word 'extra'"),
        (["run", "--out", "/dev/null/x"], "cannot write to /dev/null/x"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert expected in refusal(capsys, *words)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["comapre"], "did you mean compare?"),
        (["compare", "mimi"], "did you mean mini?"),
        (["compare", "--methods", "gcrl"], "did you mean grcl?"),
        (["compare", "--methods"], "expected at least one argument"),
        (["compare", "--methods", "grcl", "--dann.optimizer.rate", "1"], "add dann to --methods"),
        (["compare", "--method", "grcl"], "did you mean methods?"),
        (["compare", "--seeds", "one"], "seed = 'one'"),
        (["compare", "--seed", "1"], "did you mean seeds?"),
        (["compare", "--jobs", "0"], "--jobs 0: give a whole number from 1 on"),
        (["compare", "--jobs", "-1"], "--jobs -1: give a whole number from 1 on"),
        (["compare", "--jobs", "two"], "--jobs two: give a whole number from 1 on"),
        (["compare", "--vary", "memory.sizes=1"], "did you mean memory.size?"),
        (["compare", "--vary", "memory.size"], "names no values"),
        (["compare", "--vary", "memory.size="], "memory.size = ''"),
        (["compare", "--vary", "memory.size=1", "--vary", "memory.size=2"], "varied twice"),
        (["compare", "--vary", "seed=1"], "use --seeds"),
        (["compare", "--ablations", "two_view"], "did you mean two_views?"),
        (["compare", "--engine", "slurm"], "invalid choice: 'slurm'"),
        (["compare", "--training.epoch", "1"], "did you mean training.epochs?"),
        (["compare", "--mcd.encoder-step", "1"], "did you mean mcd.encoder_steps?"),
        (["compare", "--training.epochs", "0"], "training.epochs = '0'"),
        (["compare", "--preset", "nothing"], "no preset 'nothing'"),
        (["compare", "--out", "/dev/null/x"], "cannot write to /dev/null/x"),
        (["compare", "mini", "extra"], "unexpected word 'extra'"),
    ],
)
def test_a_comparison_that_cannot_be_is_refused_in_one_sentence(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert expected in refusal(capsys, *words)
    assert not Path("comparisons").exists()


def test_a_comparison_has_a_flag_for_every_setting_of_every_method(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["compare", "--help"])
    assert stop.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for flag in (
        "--methods",
        "--vary",
        "--one-target",
        "--training.epochs",
        "--grcl.source-weight",
        "--mcd.encoder-steps",
    ):
        assert flag in text


def test_mini_takes_no_data(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "mini" in refusal(capsys, "run", "--data", str(tmp_path))


def test_a_preset_that_is_no_toml_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("epochs = = 3")
    assert "not valid TOML" in refusal(capsys, "run", "--preset", "bad.toml")
    (tmp_path / "odd.toml").write_text("[trainin]\nepochs = 3")
    assert "did you mean training.epochs?" in refusal(capsys, "run", "--preset", "odd.toml")


def test_a_directory_with_another_run_or_with_other_files_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny", "--method", "source_only", "--out", "a", *QUICK]) == 0
    capsys.readouterr()
    sentence = refusal(capsys, "run", "tiny", "--method", "source_only", "--out", "a", "--seed", "1", *QUICK)
    assert "seed is 0 there, 1 here" in sentence
    Path("b").mkdir()
    Path("b/holiday.jpg").touch()
    assert "holds no run (holiday.jpg)" in refusal(
        capsys, "run", "tiny", "--method", "source_only", "--out", "b", *QUICK
    )


def test_a_loss_that_is_not_finite_fails_with_one_sentence_and_no_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny", "--grcl.optimizer.rate", "1e30", "--out", "a", *QUICK]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("grcl: ")] == [lines[-1]]
    assert "is nan" in lines[-1] or "is inf" in lines[-1]
    assert "stage 1, dark, step" in lines[-1]
    assert not {"done", "accuracy.json", "report.html"} & {path.name for path in Path("a").iterdir()}


def test_a_run_prints_the_matrix_the_measures_and_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny", *QUICK]) == 0
    streams = capsys.readouterr()
    directory = next(Path("runs/tiny/grcl").glob("*/seed-0"))
    for word in ("white", "dark", "noisy", "ACC", "BWT", "Source model", str(directory / "report.html")):
        assert word in streams.out.replace("\n", "")
    assert "stage 0: step" in streams.err
    assert "images/s" in streams.err
    assert "violations" in streams.err


def test_clamping_warns_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny", *QUICK, "--memory.size", "500", "--training.batch-size", "4000"]) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("WARNING")]
    assert warnings == [
        "WARNING: training.batch_size = 4000 is clamped where a domain has fewer images (white: 96)",
        "WARNING: memory.size = 500 is clamped where a domain has fewer images (white: 96)",
        "WARNING: the contrast's negatives (1024) are clamped where the bank has fewer keys (stage 1: 192)",
    ]


def test_variants_get_directories_of_their_own() -> None:
    assert main(["run", "tiny", "--method", "source_only", *QUICK]) == 0
    assert main(["run", "tiny", "--method", "source_only", *QUICK, "--targets", "dark+noisy"]) == 0
    Path("other.toml").write_text(Path(PRESET).read_text(encoding="utf-8"), encoding="utf-8")
    assert main(["run", "tiny", "--method", "source_only", *QUICK, "--preset", "other.toml"]) == 0
    names = {path.name for path in Path("runs/tiny/source_only").iterdir()}
    assert len(names) == 3
    assert sum("targets=dark+noisy" in name for name in names) == 1
    assert sum(name.startswith("other,") for name in names) == 1


def test_every_setting_has_a_flag_with_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["run", "--help"])
    assert stop.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for flag in ("--training.epochs", "--memory.size", "--grcl.contrast.temperature", "--augmentation.hue", "--device"):
        assert flag in text
    from grcl.config import flags, settings_class

    for setting in flags(settings_class("grcl")):
        assert setting.field.description, f"{setting.key} has no help"


def test_help_needs_no_torch() -> None:
    script = "import sys; from grcl.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    script += "assert not {'torch', 'numpy', 'pydantic', 'rich'} & set(sys.modules), sorted(sys.modules)"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "run" in shown.stdout


def test_debug_shows_where() -> None:
    from grcl.runtime.errors import Refusal

    with pytest.raises(Refusal):
        main(["run", "--method", "nothing", "--debug"])


def test_a_terminal_gets_live_bars() -> None:
    """A real pseudo-terminal: bars with stage and time left, no plain lines."""
    script = tiny_run(*QUICK)
    text = shown_on_a_terminal(script, {"PYTHONPATH": str(Path(__file__).parent), "COLUMNS": "160"})
    assert "━" in text
    assert "stage 2, noisy" in text
    assert "\x1b[" in text


def test_interrupted_by_a_real_signal_it_says_how_to_go_on_and_does() -> None:
    """SIGTERM to a real process: exit code 130, one sentence, and the same command finishes the run."""
    script = tiny_run(*QUICK, "--training.epochs", "200", "--out", "a")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("stage 1"):
            break
    process.terminate()
    rest = process.stderr.read().splitlines()
    process.stderr.close()
    assert process.wait() == 130
    assert "the same command goes on from there" in rest[-1]
    assert not Path("a/done").exists()
    assert json.loads(Path("a/config.json").read_text())["training"]["epochs"] == 200
    assert list(Path("a/checkpoints").iterdir())
