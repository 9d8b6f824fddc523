"""The words of `grcl data`: list, get, make and check the images of the benchmarks."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grcl.benchmarks import BENCHMARKS
from grcl.benchmarks.sources import SOURCES, File, Source
from grcl.flags import Parser
from grcl.runtime.errors import Failure, Refusal

if TYPE_CHECKING:
    from grcl.benchmarks.findings import Findings
    from grcl.results.tables import Table

PAPER_SIZES = (7500, 1500)  # training and test images of each domain of digits
COMPARED_SIZE = 32  # pixels at which digits are compared: those of a run
COLUMNS = 6  # of counts beside each other, which 80 characters have room for


def data_command(arguments: list[str], description: str) -> None:
    """`grcl data`."""
    parser = Parser("grcl data", description=description)
    words = parser.add_subparsers(metavar="WORD", required=True)
    _add_list(words)
    _add_get(words)
    _add_make(words)
    _add_check(words)
    given = parser.parse_args(arguments)
    given.act(given)


def _add_list(words: Any) -> None:
    parser = words.add_parser("list", help="what there is, and what can be had or made", allow_abbrev=False)
    parser.add_argument("--json", action="store_true", help="with all addresses and digests, for programs")
    parser.set_defaults(act=_list)


def _add_get(words: Any) -> None:
    parser = words.add_parser("get", help="download; what is there is not downloaded again", allow_abbrev=False)
    parser.add_argument("benchmark", metavar="BENCHMARK", choices=_benchmarks(), help=", ".join(SOURCES))
    parser.add_argument("domains", metavar="DOMAIN", nargs="*", help="some of its domains (all)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where all goes (data/BENCHMARK)")
    parser.add_argument("--json", action="store_true", help="the outcome for programs")
    parser.set_defaults(act=_get)


def _add_make(words: Any) -> None:
    parser = words.add_parser("make", help="make what the dead links left us without", allow_abbrev=False)
    kinds = parser.add_subparsers(metavar="DOMAIN", required=True)
    mnist_m = kinds.add_parser("mnist_m", help="MNIST on patches of photographs", allow_abbrev=False)
    mnist_m.add_argument("--mnist", type=Path, metavar="DIR", required=True, help="holds MNIST in any of its forms")
    mnist_m.add_argument("--photographs", type=Path, metavar="DIR", required=True, help="such as those of BSDS500")
    mnist_m.set_defaults(act=_make_mnist_m)
    synnum = kinds.add_parser("synnum", help="printed digits in the fonts of this machine", allow_abbrev=False)
    for part, size in zip(("train", "test"), PAPER_SIZES, strict=True):
        synnum.add_argument(f"--{part}", type=int, default=size, metavar="N", help=f"images to {part} ({size})")
    synnum.set_defaults(act=_make_synnum)
    for kind in (mnist_m, synnum):
        kind.add_argument("--out", type=Path, metavar="DIR", required=True, help="where it goes")
        kind.add_argument("--seed", type=_seed, default=0, metavar="N", help="of all draws (0)")


def _add_check(words: Any) -> None:
    parser = words.add_parser("check", help="count the images, find what is missing or damaged", allow_abbrev=False)
    parser.add_argument("benchmark", metavar="BENCHMARK", choices=_benchmarks(), help=", ".join(_benchmarks()))
    parser.add_argument("--data", type=Path, metavar="DIR", help="holds the benchmark's data; mini needs none")
    parser.add_argument("--json", action="store_true", help="all findings for programs")
    parser.set_defaults(act=_check)


def _benchmarks() -> list[str]:
    return list(dict.fromkeys([*BENCHMARKS, *SOURCES]))


def _seed(word: str) -> int:
    if not word.isascii() or not word.isdigit():
        raise argparse.ArgumentTypeError("give a whole number from 0 on")
    return int(word)


def _list(given: argparse.Namespace) -> None:
    if given.json:
        _write_json({name: {domain: _facts(source) for domain, source in SOURCES[name].items()} for name in SOURCES})
        return
    from grcl.results.tables import Table

    rows = [
        (name, domain, _size(source.forms[0]), _checked_by(source.forms[0]), "yes" if source.make else "")
        for name, domains in SOURCES.items()
        for domain, source in domains.items()
    ]
    rows += [(name, "all", "none", "", "by itself") for name in BENCHMARKS if name not in SOURCES]
    _show([Table(("benchmark", "domain", "to download", "checked by", "can be made"), tuple(rows))])


def _facts(source: Source) -> dict[str, Any]:
    return {
        "forms": [[vars(file) for file in form] for form in source.forms],
        "page": source.page,
        "make": source.make or None,
    }


def _size(form: tuple[File, ...]) -> str:
    from grcl.runtime.transfers import megabytes

    known = sum(file.size or 0 for file in form)
    return megabytes(known) if all(file.size for file in form) else "unknown"


def _checked_by(form: tuple[File, ...]) -> str:
    kinds = [file.digest.partition(":")[0] if file.digest else "first download" for file in form]
    return ", ".join(dict.fromkeys(kinds))


def _get(given: argparse.Namespace) -> None:
    from rich.console import Console

    from grcl.benchmarks.obtain import obtain_domain
    from grcl.runtime.transfers import transfers_for

    sources = _chosen(given.benchmark, given.domains)
    folder = given.data or Path("data") / given.benchmark
    files: dict[str, list[str]] = {}
    problems: dict[str, str] = {}
    transfers = transfers_for(Console(stderr=True))
    try:
        for name, source in sources.items():
            try:
                files[name] = [str(path) for path in obtain_domain(source, folder, transfers)]
            except Failure as failure:
                problems[name] = str(failure)
    finally:
        transfers.close()
    _tell(given, folder, files, problems)


def _tell(given: argparse.Namespace, folder: Path, files: dict[str, list[str]], problems: dict[str, str]) -> None:
    """What came, and what did not."""
    if given.json:
        _write_json({"data": str(folder), "files": files, "problems": problems})
    else:
        _say([f"{name}: {', '.join(paths)}" for name, paths in files.items()])
        _say([f"grcl data check {given.benchmark} --data {folder} looks at the images"] if files else [])
    if problems:
        reasons = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
        raise Failure(f"{len(problems)} of {len(files) + len(problems)} domains are missing: {reasons}")


def _chosen(benchmark: str, domains: list[str]) -> dict[str, Source]:
    if benchmark not in SOURCES:
        raise Refusal(f"{benchmark} makes its own images; there is nothing to get")
    sources = SOURCES[benchmark]
    for name in domains:
        if name not in sources:
            raise Refusal(f"{benchmark} has no domain {name!r}; there are: {', '.join(sources)}")
    return {name: sources[name] for name in domains or sources}


def _make_mnist_m(given: argparse.Namespace) -> None:
    from grcl.benchmarks.generators.make_mnist_m import make_mnist_m

    _say([str(make_mnist_m(given.mnist, given.photographs, given.out, given.seed))])


def _make_synnum(given: argparse.Namespace) -> None:
    from grcl.benchmarks.generators.make_synnum import make_synnum

    _say([str(make_synnum(given.out, given.train, given.test, given.seed))])


def _check(given: argparse.Namespace) -> None:
    from grcl.benchmarks.check import check
    from grcl.data.reading import Reading

    if given.data is None and given.benchmark in SOURCES:
        raise Refusal(f"grcl data check {given.benchmark} needs --data DIR, the folder to look into")
    if given.data is not None and not given.data.is_dir():
        raise Refusal(f"no folder at {given.data}; grcl data get {given.benchmark} --data {given.data} fills one")
    findings = check(given.benchmark, given.data, Reading(size=COMPARED_SIZE))
    if given.json:
        _write_json(findings.to_json())
    else:
        _show(_finding_tables(findings))
        _say(findings.remarks())
    if not findings.is_whole:
        names = ", ".join(domain.name for domain in findings.domains if not domain.is_whole)
        raise Failure(f"{given.benchmark} is not whole in {given.data}: see what is said of {names}")


def _finding_tables(findings: "Findings") -> "list[Table]":
    from grcl.benchmarks.findings import DOMAIN_COLUMNS
    from grcl.results.tables import Table

    header, rows = findings.class_columns, findings.class_rows()
    tables = [
        Table((header[0], *header[k : k + COLUMNS]), tuple((row[0], *row[k : k + COLUMNS]) for row in rows))
        for k in range(1, len(header), COLUMNS)
    ]
    return [*tables, Table(DOMAIN_COLUMNS, tuple(findings.domain_rows()))]


def _show(tables: "list[Table]") -> None:
    from rich.console import Console

    from grcl.results.tables import as_rich

    console = Console()
    for table in tables:
        console.print(as_rich(table))


def _say(lines: list[str]) -> None:
    """Names come from outside: nothing in them reaches the terminal as a command."""
    from grcl.runtime.visible import visible

    for line in lines:
        sys.stdout.write(visible(line) + "\n")


def _write_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2) + "\n")
