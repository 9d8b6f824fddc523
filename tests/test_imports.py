"""Data flows one way: no module imports one that comes later."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "grcl"

# A module may import from its own group and from those before it.
ORDER = [
    ["shapes", "runtime"],
    ["gradients", "losses", "networks", "schedule"],
    ["data", "benchmarks"],
    ["evaluate"],
    ["memory"],
    ["methods"],
    ["config", "alarms"],
    ["journal"],
    ["loop"],
    ["adaptation", "lone_stage"],
    ["source_model"],
    ["run", "flags"],
    ["learner"],
    ["comparison_plan", "engines"],
    ["compare"],
    ["commands"],
    ["cli", "__main__", "__init__"],
]
RANK = {name: rank for rank, group in enumerate(ORDER) for name in group}


def imported(path: Path) -> set[str]:
    """The parts of grcl that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "grcl":
            names |= {f"grcl.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    parts = {name.split(".")[1] for name in names if name.startswith("grcl.")}
    return parts - {"__version__"}


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_imports_go_one_way() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in SOURCE.rglob("*.py")
        for name in imported(path)
        if part_of(path) != "results" and name != "results" and RANK[name] > RANK[part_of(path)]
    ]
    assert not wrong


def test_results_need_only_the_runtime() -> None:
    needed = {name for path in (SOURCE / "results").rglob("*.py") for name in imported(path)}
    assert needed <= {"results", "runtime", "shapes"}
    users = {part_of(path) for path in SOURCE.rglob("*.py") if "results" in imported(path)}
    assert users <= {"results", "run", "learner", "compare", "commands", "cli", "__init__"}


def test_only_gradients_differentiate() -> None:
    """Nobody outside gradients/ calls backward or zero_grad: gradients are values."""
    for path in SOURCE.rglob("*.py"):
        if part_of(path) != "gradients":
            text = path.read_text()
            assert ".backward(" not in text, path
            assert "zero_grad(" not in text, path
            assert "autograd.grad(" not in text, path


def test_files_and_functions_stay_short() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert len(text.splitlines()) <= 300, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
                assert node.end_lineno - node.lineno < 50, f"{path}: {node.name}"
