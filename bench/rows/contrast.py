"""The contrastive loss of a batch, its gradient and the bank's new keys, against lightly's loss with a memory bank."""

from collections.abc import Iterator

import torch
from torch.nn.functional import normalize

from bench.line import Line, seconds
from bench.peer import Peer
from bench.timing import Times, timed
from grcl.losses import info_nce
from grcl.memory.bank import FeatureBank

BATCH, DIM, NEGATIVES, KEYS, CALLS = 256, 128, 1024, 6_000, 20


def measure(rounds: int) -> Iterator[Line]:
    """lightly's bank is a queue of the negatives; ours has a key for every image, and draws the negatives from it."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    bank = FeatureBank(KEYS, DIM, momentum=0.5)
    bank.fill(normalize(torch.randn(KEYS, DIM), dim=1))
    features = torch.randn(BATCH, DIM, requires_grad=True)

    def ours() -> None:
        for _ in range(CALLS):
            index, places = torch.randperm(KEYS)[:BATCH], bank.draw(NEGATIVES)
            query = normalize(features, dim=1)
            own = places[None, :] == index[:, None]
            info_nce(query, bank.keys[index], bank.keys[places], own, temperature=0.07).backward()
            bank.update(index, query.detach())

    peer = Peer("contrast", BATCH, DIM, NEGATIVES, CALLS)
    times = Times({"ours": timed(ours), "lightly": lambda: peer.ask("loss")}, rounds)
    peer.close()
    what = f"InfoNCE of {BATCH} images against {NEGATIVES:,} negatives: lightly's NTXentLoss with a memory bank / ours"
    measured = (seconds(times.of(name) / CALLS) for name in ("ours", "lightly"))
    yield Line("contrast", what, *measured, times.ratio("lightly", "ours"))
