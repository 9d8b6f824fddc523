"""Readers of the file formats in which digits are published; each gives a `Part`, or one sentence of refusal."""

from grcl.benchmarks.readers.class_folders import read_class_folders
from grcl.benchmarks.readers.digit_five import read_digit_five
from grcl.benchmarks.readers.hdf5 import read_hdf5
from grcl.benchmarks.readers.idx import read_idx
from grcl.benchmarks.readers.image_list import read_image_list
from grcl.benchmarks.readers.libsvm import read_libsvm
from grcl.benchmarks.readers.matlab import read_matlab
from grcl.benchmarks.readers.npz import read_npz
from grcl.benchmarks.readers.part import Part
from grcl.benchmarks.readers.tensors import read_tensors

__all__ = [
    "Part",
    "read_class_folders",
    "read_digit_five",
    "read_hdf5",
    "read_idx",
    "read_image_list",
    "read_libsvm",
    "read_matlab",
    "read_npz",
    "read_tensors",
]
