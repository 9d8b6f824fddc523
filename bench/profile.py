"""`python -m bench.profile NETWORK SIZE BATCH`: where the time of a GRCL step goes, by torch's own profiler."""

import sys

import torch
from torch.profiler import ProfilerActivity, profile

from bench.scene import first_batch, grcl, stage

_STEPS = 3


def main(network: str, size: int, batch_size: int) -> None:
    torch.set_num_threads(1)
    on = stage(2 * batch_size, size)
    method = grcl(network, on)
    batch = first_batch(method, on, batch_size)
    method.step(batch, 0.0)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(_STEPS):
            method.step(batch, 0.0)
    events = sorted(profiler.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in events)
    sys.stdout.write(f"{network}, {size} px, batch {batch_size}: {total / _STEPS / 1000:.0f} ms a step\n")
    for event in events[:16]:
        share = event.self_cpu_time_total / total
        sys.stdout.write(f"{100 * share:5.1f} %  {event.count // _STEPS:5} calls  {event.key}\n")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
