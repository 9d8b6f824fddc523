"""One file per row of the table; each has `measure`, which yields its lines."""

ROWS = (
    "step",
    "projection",
    "data",
    "whole",
    "memory",
    "growth",
    "start",
    "two_processes",
    "clustering",
    "contrast",
)
