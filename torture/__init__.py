"""What a machine, a disk and a stranger can do to a run, done on purpose: `python -m torture`."""
