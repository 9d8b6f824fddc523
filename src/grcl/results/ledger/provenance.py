"""Where the results of a table come from, in two sentences; mixed machines, commits and data are told."""

from collections.abc import Sequence
from typing import Any

from grcl.results.run_files import Record, as_object
from grcl.results.tables import escaped_markdown

SHORT = 7  # characters of a commit
UNKNOWN = "unknown"


def provenance(records: Sequence[Record]) -> str:
    """What all runs share of their environment, and in what they differ."""
    facts = [_facts(environment) for record in records for environment in _environments(record)]
    values = {name: list(dict.fromkeys(fact[name] for fact in facts)) for name in (facts[0] if facts else ())}
    shared = [f"{name} {found[0]}" for name, found in values.items() if len(found) == 1 and found[0] != UNKNOWN]
    mixed = [f"{name} {' and '.join(found)}" for name, found in values.items() if len(found) > 1]
    sentences = [f"Made with {'; '.join(shared)}."] if shared else []
    sentences += [f"Mixed: {'; '.join(mixed)}."] if mixed else []
    text = escaped_markdown(" ".join(sentences)).replace("Mixed: ", "**Mixed**: ", 1)
    return " ".join(filter(None, [text, _data(records), _source_models(records)]))


def _environments(record: Record) -> list[Record]:
    """All that a run was at work in; it may have been gone on with elsewhere."""
    last = as_object(record["environment"])
    return [*last.get("earlier", []), last]


def _short(commit: str) -> str:
    """The beginning of its hash, and whether the checkout had been changed since."""
    digest, mark, changed = commit.partition("-")
    return f"{digest[:SHORT]}{mark}{changed}"


def _facts(environment: Record) -> dict[str, str]:
    packages = as_object(environment.get("packages"))
    return {
        "commit": _short(_text(environment.get("commit"))),
        "torch": _text(packages.get("torch")),
        "Python": _text(environment.get("python")),
        "processor": _text(environment.get("processor")),
        "system": _text(environment.get("platform")),
        "device": _text(environment.get("device")),
        "threads": _text(environment.get("threads")),
    }


def _data(records: Sequence[Record]) -> str:
    """Rows on other images cannot be compared: that must be seen."""
    found: dict[str, set[str]] = {}
    for record in records:
        for domain, facts in as_object(record["data"]).items():
            found.setdefault(domain, set()).add(_text(as_object(facts).get("fingerprint")))
    differing = [escaped_markdown(domain) for domain, fingerprints in found.items() if len(fingerprints) > 1]
    return f"**Not the same images or splits in all runs**: {', '.join(differing)}." if differing else ""


def _source_models(records: Sequence[Record]) -> str:
    """Differences by seed are paired by the source model; where a seed has two of them, that must be seen too."""
    found: dict[tuple[Any, ...], set[float]] = {}
    for record in records:
        accuracy = record["accuracy"]
        for domain, before in zip(accuracy["domains"], accuracy["accuracy"][0], strict=True):
            found.setdefault((record["seed"], *accuracy["stages"][0], domain), set()).add(before)
    differing = sorted({seed for (seed, *_), values in found.items() if len(values) > 1})
    return f"**Not one source model in all runs of a seed**: {', '.join(map(str, differing))}." if differing else ""


def _text(value: Any) -> str:
    return UNKNOWN if value is None else str(value)
