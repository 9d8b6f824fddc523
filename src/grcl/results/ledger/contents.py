"""Which tables and rows the ledger has: results/ledger.toml, checked."""

import sys
from pathlib import Path
from typing import Literal

from pydantic import ValidationError, model_validator

from grcl.results.paper import PAPER
from grcl.runtime.errors import Refusal
from grcl.runtime.settings import Settings
from grcl.runtime.visible import visible

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NAME = "ledger.toml"
SWEPT = {"memory": "memory.size", "epochs": "training.epochs"}
LETTER = "grcl to the letter"
CONFIRMED = "grcl_plus, confirmed"
# What GRCL+ has by its preset and no rehearsal confirms, each taken away (docs/choosing.md).
UNCONFIRMED = {
    "grcl_plus.self_training.first_share=0.9",
    "grcl_plus.self_training.neighbours=1",
    "grcl_plus.style=False",
    "grcl_plus.veil=0.0",
    "memory.selection=confident",
}


class Line(Settings):
    """One row of a table, whether it has been run or not."""

    method: str
    """The name of its method."""
    variant: str = ""
    """What its result files lie under besides method and seed."""
    label: str = ""
    """What it is called in the table; method and variant if nothing is said."""
    value: int | None = None
    """In a sweep, the value of the swept setting."""
    chosen: str = ""
    """How its settings were chosen, in one sentence."""
    oracle: bool = False
    """Whether they were chosen with target labels."""
    why_not_run: str = ""
    """Why it has no results."""

    @property
    def name(self) -> str:
        """What it is called in the table."""
        called = self.label or ", ".join(filter(None, [self.method, *self.variant.split(",")]))
        return f"{called} (oracle)" if self.oracle else called

    @property
    def speaks_for(self) -> str:
        """The method that the claims take it for: without the source's loss in its objective, GRCL to the letter;
        without all of what no rehearsal confirms, a GRCL+ of its own."""
        changes = self.variant.split(",")
        if "grcl.source_weight=0.0" in changes:
            return LETTER
        return CONFIRMED if set(changes) >= UNCONFIRMED else self.method


class Contents(Settings):
    """One table."""

    title: str
    """Its heading."""
    benchmark: str
    """The benchmark of its rows."""
    setting: str = ""
    """What its rows have in common and those of the paper's numbers have not, such as a preset of ours; the claims are
    judged for each apart."""
    paper: Literal["table1", "memory", "epochs", "one_target", "compound", "reversed", "none"] = "none"
    """Which of the paper's results it goes with: Table 1, one of the two ablations, the figure on one target alone, the
    claim on compound stages, or with none of them: a stream reversed, and "none" for our own ablations. The rows of the
    last three are set against the first."""
    notes: str = ""
    """What a reader must know to read it, in Markdown."""
    chosen: str = ""
    """How the settings of its rows were chosen, where a row does not say so itself."""
    why_not_run: str = ""
    """Why its rows have no results, where none has."""
    row: tuple[Line, ...]
    """Its rows, in their order; the first of a method speaks for it in the verdicts."""

    @model_validator(mode="after")
    def _is_whole(self) -> "Contents":
        for line in self.row:
            if not (line.chosen or self.chosen or line.why_not_run or self.why_not_run):
                raise ValueError(f"the row {line.name!r} does not say how its settings were chosen")
            if self.paper in SWEPT and line.value is None:
                raise ValueError(f"the row {line.name!r} does not say its value of {SWEPT[self.paper]}")
        return self


class Ledger(Settings):
    """All tables."""

    table: tuple[Contents, ...] = ()
    """The tables in their order."""


def read_ledger(results: Path) -> Ledger:
    """The ledger.toml of the results."""
    path = results / NAME
    try:
        return Ledger.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise Refusal(f"cannot read {path}: {error.strerror}; it names the tables and rows of the page") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refusal(f"{path} is not valid TOML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise Refusal(f"{path}: {visible(place)}: {visible(first['msg'].removeprefix('Value error, '))}") from None


def command_of(benchmark: str, line: Line, is_one_target: bool = False) -> str:
    """The command that would make a row: its variant as flags."""
    method = (
        ["--one-target", "--methods", line.method, "--seeds", "N"] if is_one_target else [f"--method={line.method}"]
    )
    data = ["--data=DIR"] if benchmark in PAPER else []
    parts = [part.partition("=") for part in filter(None, line.variant.split(","))]
    presets = [f"--preset={name}" for name, sign, _ in parts if not sign]
    settings = [f"--{key}={value}" for key, sign, value in parts if sign and key != "targets"]
    targets = [
        word for key, _, value in parts if key == "targets" and value for word in ("--targets", *value.split("-"))
    ]
    seed = [] if is_one_target else ["--seed=N"]
    verb = "compare" if is_one_target else "run"
    return " ".join(["grcl", verb, benchmark, *method, *presets, *data, *settings, *targets, *seed])
