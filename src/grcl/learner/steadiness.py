"""Does a model see the same in an image that is turned, shifted and zoomed a little? It does in what it can read."""

import torch

from grcl.data.augment import Augmentation, apply, draw
from grcl.data.images import Images, select
from grcl.evaluate import batches_of
from grcl.learner.footing import Footing
from grcl.memory.pseudo_labels import Model
from grcl.runtime.seeding import generator

_MOST = 2000  # images that are moved
_TIMES = 3  # that each is
_MOVES = Augmentation(
    jitter_probability=0.0, blur_probability=0.0, flip_probability=0.0, rotation=12.0, translation=0.06, scale=0.12
)


@torch.no_grad()
def steadiness(model: Model, images: Images) -> Footing:
    """How far the classes of moved images are those of the images themselves."""
    drawn = generator(0, "steadiness")
    some = select(images, torch.randperm(len(images), generator=drawn)[:_MOST])
    draws = [draw(_MOVES, len(some), drawn) for _ in range(_TIMES)]
    still, moved, done = [], [], 0
    for batch in batches_of(some, model.device):
        classes, rows = model.see(batch)[1].argmax(dim=1), slice(done, done + len(batch))
        for each in draws:
            there = apply(batch.cpu(), each.rows(rows)).to(batch.device)  # not every GPU can move images
            still.append(classes)
            moved.append(model.see(there)[1].argmax(dim=1))
        done = rows.stop
    return Footing.of(torch.cat(still), torch.cat(moved))
