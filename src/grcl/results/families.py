"""Rows that are alike but for some settings: what a sweep or a choice goes over."""

import json
from collections.abc import Collection, Iterable
from typing import NamedTuple

from grcl.results.comparison import Group, Row
from grcl.results.run_files import number
from grcl.results.spread import Spread
from grcl.runtime.run_directory import flat


class Sweep(NamedTuple):
    """ACC against one setting, all else equal."""

    label: str
    method: str
    points: tuple[tuple[float, Spread], ...]


def families(rows: Iterable[Row], apart_from: Collection[str]) -> list[list[Row]]:
    """Rows of one method whose settings differ in `apart_from` at most, together.

    A setting that some of them do not know came later, and its default is what was before it: it tells apart only rows
    whose variant names it.
    """
    listed, alike = list(rows), dict[str, list[Row]]()
    known: dict[str, set[str]] = {}
    for row in listed:
        keys = {key for key in flat(row.config) if not key.startswith("fingerprints.")}
        known[row.method] = known.get(row.method, keys) & keys
    for row in listed:
        named = {part.partition("=")[0] for part in row.variant.split(",")}
        telling = (known[row.method] | named) - {"seed", *apart_from}
        settings = {key: value for key, value in flat(row.config).items() if key in telling}
        alike.setdefault(json.dumps(settings, sort_keys=True), []).append(row)
    return list(alike.values())


def family_label(family: list[Row], apart_from: Collection[str]) -> str:
    """What the rows of a family have in common: the method, and its variant without the parts in `apart_from`."""
    parts = [part for part in family[0].variant.split(",") if part.partition("=")[0] not in apart_from]
    return ", ".join(filter(None, [family[0].method, *parts]))


def sweeps(group: Group, key: str) -> list[Sweep]:
    """ACC against the setting `key`, for every family that has two values of it or more."""
    found = []
    for family in families(group.rows, [key]):
        points = {
            number(flat(row.config).get(key)): row.over_seeds(lambda matrix: matrix.average_accuracy) for row in family
        }
        known = tuple(sorted((value, spread) for value, spread in points.items() if spread is not None))
        if len(known) > 1:
            found.append(Sweep(family_label(family, [key]), family[0].method, known))
    return found
