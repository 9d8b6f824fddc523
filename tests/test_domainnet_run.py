"""DomainNet in miniature, end to end: its own folders and lists, 345 classes, ResNet-50."""

import json
from pathlib import Path

import pytest

from grcl.cli import main
from grcl.results.accuracy_matrix import AccuracyMatrix
from miniature import write_domainnet

pytestmark = pytest.mark.long


def test_a_run_on_a_miniature_of_domainnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRCL_CACHE", str(tmp_path / "cache"))
    write_domainnet(tmp_path / "data", images=1, domains=("clipart", "real"))
    words = ["run", "domainnet", f"--data={tmp_path / 'data'}", "--network.pretrained=false", "--images.size=32"]
    words += ["--split.train=345", "--split.test=300", "--targets", "real", f"--out={tmp_path / 'run'}"]
    words += ["--training.epochs=1", "--stage0.epochs=1", "--training.batch_size=64", "--stage0.batch_size=64"]
    assert main(words) == 0

    matrix = AccuracyMatrix.from_json(json.loads((tmp_path / "run" / "accuracy.json").read_text()))
    assert matrix.is_complete
    assert matrix.domains == ("clipart", "real")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["network"]["name"] == "resnet50"
    splits = json.loads((tmp_path / "run" / "splits.json").read_text())
    assert {name: (len(split["train"]), len(split["test"])) for name, split in splits.items()} == {
        "clipart": (345, 300),
        "real": (345, 300),
    }
    assert list((tmp_path / "cache" / "packed").glob("*.npy"))  # the preset packs
    report = (tmp_path / "run" / "report.html").read_text()
    assert "of 345" in report
    assert len(report) < 1_000_000
