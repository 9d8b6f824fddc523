"""A rehearsal: one half of the source, the other half under shifts as the targets, and nothing of any other domain."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from grcl.data.pool import Pool
from grcl.data.reading import Reading
from grcl.data.rehearsal import SHIFTS, cluttered, foggy, noisy, rehearsal, slanted
from grcl.data.split import Split, split_domain
from grcl.data.stream import DomainStream, Labelled
from grcl.run import open_stream, run
from grcl.runtime.errors import Refusal
from tiny import CLASSES, draw_glyphs, logged, pool, tiny_settings

WHITE = pool("white", None, Reading(size=32))
SOURCE = DomainStream(CLASSES, (split_domain("white", WHITE, Split()),), ())


def pixels(labelled: Labelled) -> Tensor:
    return labelled.images.read(torch.arange(len(labelled)))


def some(count: int = 200) -> Tensor:
    return draw_glyphs(torch.arange(count) % 4, torch.Generator().manual_seed(0))[:, None].repeat(1, 3, 1, 1)


def test_source_and_targets_are_disjoint_halves_with_the_classes_in_the_same_shares() -> None:
    stream = rehearsal(SOURCE)
    assert stream.stage_names == (("source",), *((name,) for name in SHIFTS))
    source, *targets = (torch.tensor(domain.split["train"]) for domain in stream.domains)
    assert sorted(torch.cat([source, targets[0]]).tolist()) == list(range(96))
    for part, chosen in zip(stream.domains, (source, *targets), strict=True):
        assert torch.bincount(part.train.labels).tolist() == [12, 12, 12, 12]
        assert torch.equal(part.train.labels, SOURCE.source.labels[chosen])
        assert torch.equal(part.test.labels, SOURCE.sources[0].test.labels)
    assert all(torch.equal(target, targets[0]) for target in targets)


def test_the_source_stays_as_it_is_and_every_target_does_not() -> None:
    stream = rehearsal(SOURCE)
    source, *targets = stream.domains
    assert torch.equal(pixels(source.train), SOURCE.source.images.read(torch.tensor(source.split["train"])))
    assert torch.equal(pixels(source.test), pixels(SOURCE.sources[0].test))
    for target in targets:
        before = SOURCE.source.images.read(torch.tensor(target.split["train"]))
        changed = (pixels(target.train).int() - before.int()).abs().float().mean(dim=(1, 2, 3))
        assert (changed > 0).all()
        assert (pixels(target.test) != pixels(source.test)).any()


def test_a_rehearsal_is_the_same_each_time_and_another_split_another_one() -> None:
    first, again = rehearsal(SOURCE), rehearsal(SOURCE)
    assert [domain.fingerprint for domain in first.domains] == [domain.fingerprint for domain in again.domains]
    for one, other in zip(first.domains, again.domains, strict=True):
        assert torch.equal(pixels(one.train), pixels(other.train))
        assert torch.equal(pixels(one.test), pixels(other.test))
    smaller = DomainStream(SOURCE.classes, (split_domain("white", WHITE, Split(train=80)),), ())
    assert rehearsal(smaller).domains[0].fingerprint != first.domains[0].fingerprint


def test_no_half_is_larger_than_fits_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grcl.data.rehearsal._MOST", 10)
    source, target = (torch.tensor(part.split["train"]) for part in rehearsal(SOURCE).domains[:2])
    assert (len(source), len(target)) == (10, 10)
    assert len(torch.cat([source, target]).unique()) == 20


def test_a_source_too_small_for_its_parts_is_refused_with_the_remedy() -> None:
    small = DomainStream(CLASSES, (split_domain("white", WHITE, Split(train=4)),), ())
    with pytest.raises(
        Refusal, match="every class of the source in two, and the rarest has 1 of its images; choose on more"
    ):
        rehearsal(small)


def test_no_image_of_a_target_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def source_alone(name: str, data: Path | None, reading: Reading) -> Pool:
        assert name == "white"
        return pool(name, data, reading)

    monkeypatch.setattr("tiny.pool", source_alone)
    stream = open_stream(tiny_settings("grcl", rehearse=True, targets=["dark", "noisy"]))
    assert [part.name for part in stream.domains] == ["source", *SHIFTS]


def test_fog_leaves_a_fifth_to_a_half_of_every_contrast() -> None:
    clear = some()
    spread = foggy(clear, torch.Generator().manual_seed(1)).flatten(2).std(dim=2) / clear.flatten(2).std(dim=2)
    assert ((spread >= 0.2 - 1e-4) & (spread <= 0.5 + 1e-4)).all()
    assert spread.min() < 0.23
    assert spread.max() > 0.47


def test_noise_has_a_fifth_of_the_range_and_no_bias() -> None:
    noise = noisy(some(), torch.Generator().manual_seed(1)) - some()
    assert float(noise.std()) == pytest.approx(0.2, rel=0.01)
    assert abs(float(noise.mean())) < 1e-3


def test_a_slant_moves_rows_by_their_height_and_leaves_the_middle() -> None:
    image = torch.zeros(40, 3, 33, 33)
    image[:, :, :, 16] = 1  # an upright line
    centres = (slanted(image, torch.Generator().manual_seed(2))[:, 0] * torch.arange(33.0)).sum(2)
    assert centres[:, 16].tolist() == pytest.approx([16.0] * 40, abs=1e-3)
    shear = (centres[:, 22] - centres[:, 10]) / 12
    assert ((shear.abs() > 1 / 3 - 0.02) & (shear.abs() < 2 / 3 + 0.02)).all()
    assert (shear > 0).any()
    assert (shear < 0).any()


def test_clutter_is_the_difference_to_a_window_of_another_image() -> None:
    """Where all others are of one colour, that colour is taken off whatever the window."""
    bright = torch.full((6, 3, 12, 12), 0.75)
    assert torch.allclose(cluttered(bright, torch.Generator().manual_seed(3)), torch.zeros(6, 3, 12, 12), atol=1e-6)
    enlarged = cluttered(
        torch.cat([torch.zeros(1, 3, 30, 30), some(1)[:, :, 1:31, 1:31]]), torch.Generator().manual_seed(5)
    )
    assert enlarged.min() >= 0
    assert enlarged.max() <= 1


def test_a_rehearsal_is_run_like_any_stream(tmp_path: Path, without_report: None) -> None:
    settings = tiny_settings("grcl_plus", rehearse=True, training__epochs=1)
    matrix = run(settings, tmp_path)
    assert matrix.stages == tuple((part,) for part in ("source", *SHIFTS))
    before = logged(tmp_path)
    assert run(settings, tmp_path).values.tolist() == matrix.values.tolist()
    assert logged(tmp_path) == before
