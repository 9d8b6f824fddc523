"""A rehearsal: of the source's training images some are the source, others, shifted, the targets; no more is read."""

import json
from itertools import chain
from pathlib import Path

import pytest
import torch
from torch import Tensor

from grcl.config import resolve, variant
from grcl.data.images import ImageArray
from grcl.data.pool import Pool
from grcl.data.reading import Reading
from grcl.data.rehearsal import SHIFTS, foggy, noisy, rehearsal, shaded, slanted
from grcl.data.split import Split, split_domain
from grcl.data.stream import Domain, DomainStream, Labelled
from grcl.run import open_stream, run
from grcl.runtime.errors import Refusal
from tiny import CLASSES, PRESET, draw_glyphs, logged, pool, tiny_settings

READING = Reading(size=32)
WHITE = pool("white", None, READING)


def stream_of(*names: str, split: Split | None = None) -> DomainStream:
    sources = tuple(split_domain(name, pool(name, None, READING), split or Split()) for name in names)
    return DomainStream(CLASSES, sources, ())


SOURCE = stream_of("white")
TRAIN = SOURCE.source


def pixels(labelled: Labelled) -> Tensor:
    return labelled.images.read(torch.arange(len(labelled)))


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def glyphs(count: int = 200) -> Tensor:
    return draw_glyphs(torch.arange(count) % 4, draws())[:, None].repeat(1, 3, 1, 1)


def test_source_targets_and_test_are_disjoint_fifths_of_every_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grcl.data.rehearsal.SHIFTS", {"as it is": lambda images, _: images})
    source, target = rehearsal(SOURCE).domains
    place = {tuple(image): k for k, image in enumerate(pixels(TRAIN).flatten(1).tolist())}
    parts = (source.train, target.train, source.test)
    places = [[place[tuple(image)] for image in pixels(part).flatten(1).tolist()] for part in parts]
    assert sorted(chain(*places)) == list(range(96))
    for part, where, fifths in zip(parts, places, (2, 2, 1), strict=True):
        assert torch.equal(part.labels, TRAIN.labels[where])
        counts = torch.bincount(part.labels)
        assert ((counts - fifths * 24 / 5).abs() <= 1).all()
    assert torch.equal(pixels(source.test), pixels(target.test))


def test_every_target_is_trained_on_and_tested_under_its_own_shift(monkeypatch: pytest.MonkeyPatch) -> None:
    shifts = {
        "plain": lambda images, _: images,
        "halved": lambda images, _: images / 2,
        "white": lambda images, _: 0 * images + 1,
    }
    monkeypatch.setattr("grcl.data.rehearsal.SHIFTS", shifts)
    source, plain, halved, white = rehearsal(SOURCE).domains
    assert torch.equal(pixels(plain.test), pixels(source.test))
    for side in ("train", "test"):
        before, after, last = (getattr(domain, side) for domain in (plain, halved, white))
        assert (2 * pixels(after).int() - pixels(before).int()).abs().max() <= 1
        assert (pixels(last) == 255).all()
        assert torch.equal(after.labels, before.labels)
        assert torch.equal(last.labels, before.labels)


def test_the_source_keeps_its_name_and_its_split() -> None:
    (source, *targets), before = rehearsal(SOURCE).domains, SOURCE.sources[0]
    assert (source.name, source.split, source.note) == (before.name, before.split, before.note)
    assert [target.name for target in targets] == list(SHIFTS)
    assert all(target.note == "made of the source" for target in targets)


def test_several_sources_stay_several_and_are_shifted_together() -> None:
    stream = rehearsal(stream_of("white", "dark"))
    assert stream.stage_names[0] == ("white", "dark")
    for target in stream.domains[2:]:
        assert len(target.train) + len(target.test) in range(2 * 3 * 96 // 5 - 4, 2 * 3 * 96 // 5 + 5)
        assert torch.bincount(target.train.labels).min() >= 2 * (2 * 24 // 5)


def test_a_rehearsal_is_the_same_each_time_and_each_domain_has_a_fingerprint_of_its_own() -> None:
    first, again, other = rehearsal(SOURCE), rehearsal(SOURCE), rehearsal(stream_of("white", split=Split(train=80)))
    prints = [[domain.fingerprint for domain in stream.domains] for stream in (first, again, other)]
    assert prints[0] == prints[1]
    assert len({*prints[0], *prints[2], SOURCE.sources[0].fingerprint}) == 11
    for one, same in zip(first.domains, again.domains, strict=True):
        assert torch.equal(pixels(one.train), pixels(same.train))
        assert torch.equal(pixels(one.test), pixels(same.test))


def test_training_and_test_images_have_draws_of_their_own() -> None:
    """Else a test image would have the noise of a training image."""
    grey = Labelled(ImageArray(torch.full((40, 3, 32, 32), 128, dtype=torch.uint8)), torch.arange(40) % 4)
    stream = DomainStream(CLASSES, (Domain("grey", grey, grey, "grey"),), ())
    noise = {domain.name: domain for domain in rehearsal(stream).domains}["noisy"]
    assert not torch.equal(pixels(noise.train)[: len(noise.test)], pixels(noise.test))


def test_a_large_set_is_thinned_by_class_until_it_fits_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grcl.data.rehearsal._MOST_PIXELS", 16 * 32 * 32)
    for target in rehearsal(SOURCE).domains[1:]:
        for side in (target.train, target.test):
            assert 8 <= len(side) <= 16
            counts = torch.bincount(side.labels)
            assert counts.max() - counts.min() <= 1


def test_a_class_that_cannot_be_cut_in_five_is_refused_with_the_remedy() -> None:
    with pytest.raises(Refusal, match="the rarest has only 4; choose on more labelled images"):
        rehearsal(stream_of("white", split=Split(train=16)))


def test_a_rehearsal_takes_no_targets_and_reads_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def source_alone(name: str, data: Path | None, reading: Reading) -> Pool:
        assert name == "white"
        return pool(name, data, reading)

    monkeypatch.setattr("tiny.pool", source_alone)
    settings = tiny_settings("grcl", rehearse="true")
    assert settings.targets == ()
    assert variant(settings, PRESET) == {"rehearse": True, "targets": []}
    assert resolve("tiny", "grcl", {"rehearse": True, "targets": []}, PRESET) == settings
    assert [part.name for part in open_stream(settings).domains] == ["white", *SHIFTS]
    with pytest.raises(Refusal, match="a rehearsal makes its targets of the source"):
        tiny_settings("grcl", rehearse=True, targets=["dark"])


def test_fog_leaves_a_fifth_to_a_half_of_every_contrast_and_is_coloured() -> None:
    clear = glyphs()
    fog = foggy(clear, draws(1))
    spread = fog.flatten(2).std(dim=2) / clear.flatten(2).std(dim=2)
    assert ((spread >= 0.2 - 1e-4) & (spread <= 0.5 + 1e-4)).all()
    assert spread.min() < 0.23
    assert spread.max() > 0.47
    assert (fog.mean(dim=(2, 3)).std(dim=1) > 0.01).float().mean() > 0.9


def test_noise_has_a_fifth_of_the_range_and_no_bias() -> None:
    noise = noisy(glyphs(), draws(1)) - glyphs()
    assert float(noise.std()) == pytest.approx(0.2, rel=0.01)
    assert abs(float(noise.mean())) < 1e-3


def test_a_slant_moves_rows_by_their_height_and_leaves_the_middle() -> None:
    image = torch.zeros(40, 3, 33, 33)
    image[:, :, :, 16] = 1  # an upright line
    centres = (slanted(image, draws(2))[:, 0] * torch.arange(33.0)).sum(2)
    assert centres[:, 16].tolist() == pytest.approx([16.0] * 40, abs=1e-3)
    shear = (centres[:, 22] - centres[:, 10]) / 12
    assert ((shear.abs() > 1 / 3 - 0.02) & (shear.abs() < 2 / 3 + 0.02)).all()
    assert (shear > 0).any()
    assert (shear < 0).any()


def test_a_shadow_darkens_one_side_of_each_image_and_hardly_the_other() -> None:
    light = shaded(torch.ones(200, 3, 32, 32), draws(3))
    darkest, lightest = light.amin(dim=(1, 2, 3)), light.amax(dim=(1, 2, 3))
    assert ((darkest > 0.1) & (darkest < 0.35)).all()
    assert (lightest > 0.98).all()
    assert ((light + light.flip(2, 3)).mean(dim=(1, 2, 3)) / 2 - (1 + darkest) / 2).abs().max() < 0.02
    for side in (light[:, 0, :, 0], light[:, 0, :, -1], light[:, 0, 0], light[:, 0, -1]):
        assert (side.mean(dim=1) < 0.4).float().mean() > 0.1


def test_a_rehearsal_is_run_like_any_stream(tmp_path: Path, without_report: None) -> None:
    settings = tiny_settings("grcl_plus", rehearse=True, training__epochs=1)
    matrix = run(settings, tmp_path / "first")
    assert matrix.stages == (("white",), *((part,) for part in SHIFTS))
    before = logged(tmp_path / "first")
    assert run(settings, tmp_path / "first").values.tolist() == matrix.values.tolist()
    assert logged(tmp_path / "first") == before
    splits = tmp_path / "first" / "splits.json"
    assert json.loads(splits.read_text())["white"] == SOURCE.sources[0].split
    again = tiny_settings("grcl_plus", rehearse=True, training__epochs=1, split__file=splits)
    assert run(again, tmp_path / "again").values.tolist() == matrix.values.tolist()
