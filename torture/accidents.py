"""The accidents that happen to files, drawn at random from a seed."""

import random
from collections.abc import Callable

_LONGEST = 64


def mutated(content: bytes, chance: random.Random) -> bytes:
    """The bytes after one accident; never the same bytes."""
    while True:
        other = chance.choice(ACCIDENTS)(content, chance)
        if other != content:
            return other


def _flip(content: bytes, chance: random.Random) -> bytes:
    """A few bits turned, anywhere or among the headers at the beginning."""
    changed = bytearray(content)
    reach = chance.choice((len(content), min(256, len(content))))
    for _ in range(chance.choice((1, 1, 2, 8))):
        changed[chance.randrange(reach)] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _truncate(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


def _insert(content: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(content) + 1)
    return content[:place] + chance.randbytes(chance.randint(1, _LONGEST)) + content[place:]


def _delete(content: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(content))
    return content[:place] + content[place + chance.randint(1, _LONGEST) :]


def _overwrite(content: bytes, chance: random.Random) -> bytes:
    place, length = chance.randrange(len(content)), chance.randint(1, _LONGEST)
    return content[:place] + chance.randbytes(len(content[place : place + length])) + content[place + length :]


def _swap(content: bytes, chance: random.Random) -> bytes:
    """Two blocks that changed places."""
    size = max(1, min(chance.choice((16, 512, 4096)), len(content) // 2))
    first, second = sorted(chance.sample(range(len(content) - size + 1), 2)) if len(content) > size else (0, 0)
    if second < first + size:
        return content
    a, b = content[first : first + size], content[second : second + size]
    return content[:first] + b + content[first + size : second] + a + content[second + size :]


def _zero(content: bytes, chance: random.Random) -> bytes:
    """A run of zeros, as a disk leaves that was cut off."""
    place, length = chance.randrange(len(content)), chance.choice((8, 64, 512, 4096))
    zeros = bytes(len(content[place : place + length]))
    return content[:place] + zeros + content[place + length :]


def _extend(content: bytes, chance: random.Random) -> bytes:
    return content + chance.choice((bytes(chance.randint(1, 4096)), chance.randbytes(16), content))


ACCIDENTS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip,
    _flip,
    _truncate,
    _insert,
    _delete,
    _overwrite,
    _swap,
    _zero,
    _extend,
)
