"""What the README shows is run: its Python blocks, its diff, and its commands."""

import re
import shlex
from pathlib import Path

import pytest
import torch

from grcl.cli import COMMANDS
from learners import write_flat, write_labelled

README = (Path(__file__).parents[1] / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_python_blocks_run(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder with the images that they speak of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRCL_CACHE", str(tmp_path / "cache"))
    write_labelled(Path("photos"), "white", 12)
    for name in ("phone", "winter"):
        write_flat(Path(name), "noisy", 12)
    exec(blocks("python")[number], {})


def test_the_diff_against_plain_pytorch_protects_the_old_loss() -> None:
    """Both sides of the diff run; after the plain step the old loss is higher, after the projected one it is not."""
    (diff,) = blocks("diff")
    rises: dict[str, bool] = {}
    for side, dropped in (("plain", "+"), ("projected", "-")):
        code = "\n".join(line[1:] for line in diff.splitlines() if not line.startswith(dropped))
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 1, bias=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        x, z = torch.tensor([1.0, 0.0, 1.0]), torch.tensor([-1.0, 1.0, 0.0])
        new_loss, old_loss = model(x).sum(), model(z).sum()
        before = old_loss.item()
        exec(code, {"torch": torch, "model": model, "optimizer": optimizer, "new_loss": new_loss, "old_loss": old_loss})
        rises[side] = model(z).sum().item() > before + 1e-7
    assert rises == {"plain": True, "projected": False}


def test_commands_exist() -> None:
    commands = [shlex.split(line, comments=True) for line in re.findall(r"^    (grcl .*)$", README, flags=re.MULTILINE)]
    assert commands
    assert all(words[1] in COMMANDS for words in commands)


def test_links_lead_somewhere() -> None:
    root = Path(__file__).parents[1]
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (root / target).exists(), target


def test_the_readme_is_one_page() -> None:
    assert len(README.splitlines()) <= 120
