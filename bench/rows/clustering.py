"""k-means against scikit-learn from the same start; building the bank against a bare pass over the same images."""

from collections.abc import Iterator

import torch
from torch.nn.functional import normalize

from bench.line import Line, at_most, seconds
from bench.scene import grcl, stage
from bench.timing import Times, timed
from grcl.data.stream import Stage
from grcl.memory.pseudo_labels import cluster
from grcl.methods.grcl import Grcl

PASS = 500


def measure(rounds: int) -> Iterator[Line]:
    torch.set_num_threads(1)
    for count, size, classes in ((20_000, 84, 10), (20_000, 512, 100)):
        yield _clustering(count, size, classes, rounds)
    on = stage(2_000, 32)
    method = grcl("lenet5", on)
    method.eval()
    works = {"ours": timed(lambda: method.warm_up(on)), "bare": timed(lambda: bare_pass(method, on))}
    times = Times(works, 4 * rounds)
    what = f"bank of {len(on.union()):,} keys / a bare forward pass over the same images"
    measured = seconds(times.of("ours")), seconds(times.of("bare"))
    yield Line("clustering", what, *measured, times.ratio("ours", "bare"), at_most(1.1))


@torch.no_grad()
def bare_pass(method: Grcl, on: Stage) -> None:
    """Network and projector over all images, in as large pieces as ours, and nothing kept."""
    for part in (on.source.images, on.memory[0].images, on.target):
        for pixels in part.read(torch.arange(len(part))).split(PASS):
            method.contrast.projector(method.network.features(pixels.float() / 255))


def _clustering(count: int, size: int, classes: int, rounds: int) -> Line:
    from sklearn.cluster import KMeans

    source = torch.Generator().manual_seed(0)
    centres = 2 * torch.randn(classes, size, generator=source)
    features = normalize(centres[torch.arange(count) % classes] + 3 * torch.randn(count, size, generator=source), dim=1)
    start = normalize(centres + torch.randn(classes, size, generator=source), dim=1)
    as_array, start_as_array = features.numpy(), start.numpy()

    def theirs() -> None:
        KMeans(classes, init=start_as_array, n_init=1, max_iter=100, tol=0, algorithm="lloyd").fit(as_array)

    times = Times({"ours": timed(lambda: cluster(features, start)), "theirs": timed(theirs)}, rounds)
    what = f"k-means, {count:,} x {size}, {classes} clusters: ours / scikit-learn"
    measured = seconds(times.of("ours")), seconds(times.of("theirs"))
    return Line("clustering", what, *measured, times.ratio("ours", "theirs"), at_most(1.1))
