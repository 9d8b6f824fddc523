"""Where the data of the benchmarks is published: addresses, digests and sizes, each with the loader that publishes it.

None is invented. A file without a published digest must match the first download of it, which is recorded.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """A file below the folder of the data, and all that is published about it."""

    name: str
    addresses: tuple[str, ...]
    """Mirrors of the same bytes, tried in order."""
    digest: str | None = None
    """Such as `md5:...` or `sha256:...`."""
    size: int | None = None
    """In bytes."""
    unpacked: str | None = None
    """The folder or file, beside the archive, that it is unpacked to; the archive itself is then removed."""


@dataclass(frozen=True)
class Source:
    """Where one domain comes from."""

    forms: tuple[tuple[File, ...], ...]
    """Each form is all that is needed of the domain; a later one serves where an earlier one cannot be had."""
    page: str
    """Where a human finds it."""
    make: str = ""
    """The command that makes it here, if there is one."""


def _idx(name: str, md5: str, size: int) -> File:
    # torchvision.datasets.mnist: two addresses and the md5; tensorflow_datasets, mnist: the third address and the size
    roots = (
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "http://yann.lecun.com/exdb/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
    )
    return File(f"MNIST/raw/{name}", tuple(f"{root}/{name}" for root in roots), f"md5:{md5}", size)


def _usps(name: str, md5: str) -> File:
    # torchvision.datasets.usps
    return File(name, (f"https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/{name}",), f"md5:{md5}")


def _svhn(name: str, md5: str, size: int) -> File:
    # torchvision.datasets.svhn; the size: tensorflow_datasets, svhn_cropped
    return File(name, (f"http://ufldl.stanford.edu/housenumbers/{name}",), f"md5:{md5}", size)


def _release(repository: str, name: str, md5: str, unpacked: str) -> File:
    # github.com/liyxi/mnist-m, mnist_m.py; github.com/liyxi/synthetic-digits, synthetic_digits.py
    address = f"https://github.com/liyxi/{repository}/releases/download/data/{name}"
    return File(name, (address,), f"md5:{md5}", unpacked=unpacked)


# github.com/KevinMusgrave/pytorch-adapt, datasets/mnistm.py: the original images and label lists
_MNIST_M_FOLDERS = File(
    "mnist_m.tar.gz",
    ("https://cornell.box.com/shared/static/jado7quprg6hzzdubvwzh9umr75damwi",),
    "md5:859df31c91afe82e80e5012ba928f279",
    unpacked="mnist_m",
)

_DIGITS = {
    "synnum": Source(
        (
            (
                _release("synthetic-digits", "synth_train.pt.gz", "d0e99daf379597e57448a89fc37ae5cf", "synth_train.pt"),
                _release("synthetic-digits", "synth_test.pt.gz", "669d94c04d1c91552103e9aded0ee625", "synth_test.pt"),
            ),
        ),
        page="https://github.com/liyxi/synthetic-digits",
        make="grcl data make synnum --out DIR",
    ),
    "mnist": Source(
        (
            (
                _idx("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873", 9_912_422),
                _idx("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432", 28_881),
                _idx("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3", 1_648_877),
                _idx("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c", 4_542),
            ),
        ),
        page="http://yann.lecun.com/exdb/mnist",
    ),
    "mnist_m": Source(
        (
            (
                _release("mnist-m", "mnist_m_train.pt.tar.gz", "191ed53db9933bd85cc9700558847391", "mnist_m_train.pt"),
                _release("mnist-m", "mnist_m_test.pt.tar.gz", "e11cb4d7fff76d7ec588b1134907db59", "mnist_m_test.pt"),
            ),
            (_MNIST_M_FOLDERS,),
        ),
        page="https://github.com/liyxi/mnist-m",
        make="grcl data make mnist_m --mnist DIR --photographs DIR --out DIR",
    ),
    "usps": Source(
        (
            (
                _usps("usps.bz2", "ec16c51db3855ca6c91edd34d0e9b197"),
                _usps("usps.t.bz2", "8ea070ee2aca1ac39742fdd1ef5ed118"),
            ),
        ),
        page="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html#usps",
    ),
    "svhn": Source(
        (
            (
                _svhn("train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373", 182_040_794),
                _svhn("test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3", 64_275_384),
            ),
        ),
        page="http://ufldl.stanford.edu/housenumbers",
    ),
}


def _office(domain: str) -> Source:
    # github.com/pykale/pykale, loaddata/image_access.py, today and in earlier releases; no digest is published.
    # Amazon, DSLR and WebCam hold all 31 classes of Office-31, Caltech its ten under the names of Office-31.
    roots = (
        "https://github.com/pykale/data/raw/main/images/office",
        "https://github.com/pykale/data/raw/main/image_data/office",
    )
    archive = File(f"{domain}.zip", tuple(f"{root}/{domain}.zip" for root in roots), unpacked=domain)
    return Source(((archive,),), page="https://github.com/pykale/data/tree/main/images/office")


def _domainnet(archive: tuple[str, int, str], train: tuple[int, str], test: tuple[int, str]) -> Source:
    # The addresses of the authors, ai.bu.edu/M3SDA (cleaned version); size and sha256: tensorflow_datasets, domainnet
    root = "http://csr.bu.edu/ftp/visda/2019/multi-source"
    place, size, sha256 = archive
    name = place.rpartition("/")[2]
    domain = name.removesuffix(".zip")
    lists = tuple(
        File(f"{domain}_{part}.txt", (f"{root}/domainnet/txt/{domain}_{part}.txt",), f"sha256:{digest}", length)
        for part, (length, digest) in {"train": train, "test": test}.items()
    )
    images = File(name, (f"{root}/{place}",), f"sha256:{sha256}", size, unpacked=domain)
    return Source(((*lists, images),), page="http://ai.bu.edu/M3SDA")


SOURCES: dict[str, dict[str, Source]] = {
    "digits": _DIGITS,
    "office_caltech": {domain: _office(domain) for domain in ("dslr", "amazon", "webcam", "caltech")},
    "domainnet": {
        "clipart": _domainnet(
            (
                "groundtruth/clipart.zip",
                1_270_909_081,
                "f8f248a3e8bbc9868c523ae24e6601b4c2ad102afc60c0efeb4f3255df22354d",
            ),
            (1_443_819, "affdadf5f95a7583e6b98030a3d35007e2613ee4dd942393c5a705ec2b429312"),
            (628_917, "62c8e36aaba1c41ad9e249099739707220a44c08f167b37ef420f34a31628a6b"),
        ),
        "real": _domainnet(
            ("real.zip", 6_062_039_589, "d7fe010b430c5b510f85d657d38c4a1924822695fabea4fef57bd00dba251d63"),
            (4_440_944, "19d483256d24aef19e581b65eda8333fd918aef3eb733fe499ff384120e3a289"),
            (1_911_327, "2b3f75bcde309aeb5931292084b2162e936b5f189e3bb1ad716f0f74c460864c"),
        ),
        "infograph": _domainnet(
            ("infograph.zip", 4_338_659_804, "891e14f476317e97b6f06d6498c11d0a5b8d0c8b57210765ed9beb072da611fa"),
            (1_683_098, "36b44cbd41a2915e0dc73b4f4be8862a6f3c220f93c8d63fb2439beeae3aefda"),
            (728_028, "413cfa54ac92e7e6b242f4f09fbd9c8ace85c4deaf3cb6c81ff6b68264460136"),
        ),
        "sketch": _domainnet(
            ("sketch.zip", 2_633_992_926, "23a7dbae7016b343e934399beaa8a68728fb5e570ebe2c71df9b75cf91c499fc"),
            (1_960_222, "72f4bc6afa5702a1ccba800d0053c1427de87439dfaf246dbc9a2e71abfec54f"),
            (850_581, "3fb48fca18c507c4321f007c3f62b308ec232ff6928cbfe2af64e76ec366e840"),
        ),
        "painting": _domainnet(
            (
                "groundtruth/painting.zip",
                3_679_366_174,
                "fa47e6d405503ea0286cabd767f176bd30e988b63ddd7b9db16cf030c9770015",
            ),
            (2_241_901, "f1da38d50a702fddf1329f85bc607d7a2abcae7e6aec75e1fd49cc1bd340d47b"),
            (971_888, "11472b13b5188e09f06918b12eebb660588c97a20e43e268d9b02e3e37eb8f97"),
        ),
    },
}
