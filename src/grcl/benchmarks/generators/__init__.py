"""Renderers of digit images: pure functions of a digit, their raw material and a random generator."""

from grcl.benchmarks.generators.house_numbers import render_house_number
from grcl.benchmarks.generators.mnist_m import blend_mnist_m, cut_patch
from grcl.benchmarks.generators.synnum import render_synnum

__all__ = ["blend_mnist_m", "cut_patch", "render_house_number", "render_synnum"]
