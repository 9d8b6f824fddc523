"""Run directories that nobody ran: files such as a run leaves behind, with numbers to check by hand."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOSTILE = ("<script>alert(1)</script>", "$x$", "\x1b[31m", "[red]", "a|b", "=1+1")
DIGITS = ("synnum", "mnist", "mnist_m", "usps", "svhn")
Matrix = Sequence[Sequence[float]]


@dataclass
class MadeUp:
    """A run to be left on disk."""

    method: str
    accuracy: Matrix
    seed: int = 0
    variant: str = ""
    benchmark: str = "mini"
    domains: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    log: Sequence[Mapping[str, Any]] = ()
    steps: int = 100

    def write(self, folder: Path) -> Path:
        """Its directory below `folder`, laid out as `grcl compare` does; a method may be called anything."""
        segments = [self.method.replace("/", "_"), self.variant.replace("/", "_"), f"seed-{self.seed}"]
        directory = folder.joinpath(*filter(None, segments))
        directory.mkdir(parents=True)
        domains = list(self.domains) or [f"d{index}" for index in range(len(self.accuracy))]
        stages = [[name] for name in domains]
        names = {"benchmark": self.benchmark, "method": self.method, "seed": self.seed, "targets": domains[1:]}
        write_json(directory / "config.json", {**names, **self.settings})
        write_json(directory / "accuracy.json", {"domains": domains, "stages": stages, "accuracy": self.accuracy})
        cost = {"kind": "stage", "steps": self.steps, "images": 256 * self.steps, "seconds": 30.0}
        costs = [{**cost, "stage": stage} for stage in range(1, len(stages)) if self.steps]
        lines = [*self.log, *costs, {"kind": "end", "peak_memory": 400 * 2**20}]
        (directory / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        (directory / "done").touch()
        return directory


def write_json(path: Path, record: Any) -> None:
    path.write_text(json.dumps(record), encoding="utf-8")


def settings(size: int = 1024, epochs: int = 240, **own: Any) -> dict[str, Any]:
    return {"memory": {"size": size}, "training": {"epochs": epochs}, **own}


def monitor(agreement: float) -> dict[str, Any]:
    """What the log says after the first stage."""
    return {"kind": "monitor", "stage": 1, "when": "after", "values": {"entropy": 0.3, "agreement": agreement}}


def conflicts(stages: int, tilt: float) -> list[dict[str, Any]]:
    """Steps with cosines against the source and, from stage 2 on, against the memory."""
    lines = []
    for stage in range(1, stages):
        for line in range(1, 7):
            against_source = [((7 * step + 3 * stage + line) % 10 - 4) / 10 + tilt for step in range(10)]
            cosines = {"cosine/source": against_source}
            cosines |= {"cosine/memory": [value - 0.2 for value in against_source]} if stage > 1 else {}
            shares = {key.replace("cosine", "violated"): sum(x < 0 for x in row) / 10 for key, row in cosines.items()}
            place = {"kind": "step", "stage": stage, "step": 10 * line, "steps": 60}
            lines.append({**place, "values": {**shares, "correction": 0.1 * stage}, "cosines": cosines})
    return lines


def drifting(level: float, forgetting: float, seed: int) -> list[list[float]]:
    """R of a method that reaches `level` on a new domain and loses `forgetting` of it at every later stage."""
    wiggle = 0.004 * seed * (1 + 10 * forgetting)
    return [
        [
            round(level + wiggle - forgetting * (stage - domain) if domain <= stage else 0.6 - 0.05 * domain, 4)
            for domain in range(len(DIGITS))
        ]
        for stage in range(len(DIGITS))
    ]


# level and forgetting of each
METHODS = {
    "source_only": (0.66, 0.0),
    "source_continued": (0.68, 0.004),
    "multi_task": (0.74, 0.02),
    "dann": (0.72, 0.04),
    "mcd": (0.735, 0.038),
    "dada": (0.74, 0.035),
    "cua": (0.78, 0.02),
    "gra": (0.8, 0.006),
    "grcl": (0.82, 0.003),
}


def make_gallery(folder: Path, seeds: int = 3) -> None:
    """Every table and figure at once: nine methods, variants, both sweeps, the one-target setting, hostile names."""
    for seed in range(seeds):
        for run in [*_methods(seed), *_variants(seed), *_one_target(seed)]:
            run.benchmark = "digits"
            run.domains = run.domains or DIGITS
            run.write(folder)


def _methods(seed: int) -> list[MadeUp]:
    logs = {"gra": conflicts(len(DIGITS), 0.0), "grcl": conflicts(len(DIGITS), 0.1)}
    return [
        MadeUp(
            name,
            drifting(level, forgetting, seed),
            seed,
            settings=settings(),
            log=logs.get(name, ()),
            steps=0 if name == "source_only" else 100,
        )
        for name, (level, forgetting) in METHODS.items()
    ]


def _variants(seed: int) -> list[MadeUp]:
    made = {f"memory.size={size}": (0.7 + 0.01 * size**0.35, settings(size)) for size in (256, 512, 2048)}
    made |= {
        f"training.epochs={epochs}": (0.7 + 0.0004 * epochs, settings(epochs=epochs)) for epochs in (120, 180, 300)
    }
    made["to_the_letter"] = (0.8, settings(grcl={"source_weight": 0.0}))
    runs = [
        MadeUp("grcl", drifting(level, 0.004, seed), seed, variant, settings=own)
        for variant, (level, own) in made.items()
    ]
    return [*runs, MadeUp(HOSTILE[0], drifting(0.5, 0.05, seed), seed, HOSTILE[1])]


def _one_target(seed: int) -> list[MadeUp]:
    runs = []
    for index, target in enumerate(DIGITS[1:]):
        before, loss = [0.93, 0.6 - 0.05 * index], 0.04 * index - 0.003 * seed
        alone, stream = f"targets={target}", (DIGITS[0], target)
        runs.append(MadeUp("source_only", [before, before], seed, alone, domains=stream, steps=0))
        runs.append(MadeUp("grcl", [before, [0.925, 0.78 - loss]], seed, alone, domains=stream))
        for weight in (0.1, 1.0):
            runs.append(
                MadeUp(
                    "multi_task",
                    [before, [0.9 - 0.03 * weight, 0.7 + 0.05 * weight - loss]],
                    seed,
                    f"multi_task.contrast_weight={weight},{alone}",
                    domains=stream,
                    settings={"multi_task": {"contrast_weight": weight}},
                    # the small weight agrees more on the first target alone
                    log=[monitor(0.7 + 0.1 * weight if index else 0.9 - 0.1 * weight)],
                )
            )
    return runs
