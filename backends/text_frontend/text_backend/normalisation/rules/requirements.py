"""Which characters a text must have for a pattern to match at all.

There are more than a hundred rules, each looks through the whole text, and most have nothing to find in it. A look at
the set of the text's characters is a hundred times cheaper than a search.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any

_PREFIX = "re._" if sys.version_info >= (3, 11) else "sre_"
sre: Any = import_module(f"{_PREFIX}constants")
parser: Any = import_module(f"{_PREFIX}{'parser' if sys.version_info >= (3, 11) else 'parse'}")

_KEPT = 3
_LARGEST = 400
"""Sets of more characters (all of Chinese) tell little and take space."""
_DIGITS = frozenset("0123456789")


def required(pattern: re.Pattern[str]) -> tuple[frozenset[str], ...]:
    r"""Sets of characters of each of which a text that ``pattern`` matches has at least one; the telling ones first.

    Args:
        pattern: for texts, with the flag ASCII, so that ``\d`` is ten characters.
    """
    found = _of_sequence(parser.parse(pattern.pattern, pattern.flags), pattern.flags)
    # digits are in nearly every text for which rules are asked
    return tuple(sorted(found, key=lambda needed: (not needed.isdisjoint(_DIGITS), len(needed)))[:_KEPT])


def _of_sequence(items: Iterable[Any], flags: int) -> set[frozenset[str]]:
    found: set[frozenset[str]] = set()
    for operator, argument in items:
        found |= _of_item(operator, argument, flags)
    return found


def _of_item(operator: Any, argument: Any, flags: int) -> set[frozenset[str]]:
    if operator is sre.LITERAL:
        return {_cases(chr(argument), flags)}
    if operator is sre.IN:
        members = _members(argument, flags)
        return set() if members is None else {members}
    if operator is sre.SUBPATTERN:
        _, added, removed, items = argument
        return _of_sequence(items, (flags | added) & ~removed)
    if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        low, _, items = argument
        return _of_sequence(items, flags) if low else set()
    if operator is sre.ASSERT:
        return _of_sequence(argument[1], flags)
    if operator is sre.BRANCH:
        return _of_branch(argument[1], flags)
    return set()


def _of_branch(branches: Iterable[Any], flags: int) -> set[frozenset[str]]:
    """One character of whichever branch matches."""
    union: set[str] = set()
    for branch in branches:
        needs = _of_sequence(branch, flags)
        if not needs:
            return set()
        union |= min(needs, key=lambda needed: (not needed.isdisjoint(_DIGITS), len(needed)))
    return {frozenset(union)}


def _members(items: Iterable[Any], flags: int) -> frozenset[str] | None:
    """Characters of a class; ``None`` for a negated or large one."""
    found: set[str] = set()
    for operator, argument in items:
        if operator is sre.LITERAL:
            found |= _cases(chr(argument), flags)
        elif operator is sre.RANGE and argument[1] - argument[0] < _LARGEST:
            for point in range(argument[0], argument[1] + 1):
                found |= _cases(chr(point), flags)
        elif operator is sre.CATEGORY and argument is sre.CATEGORY_DIGIT and flags & re.ASCII:
            found |= _DIGITS
        else:
            return None
    return frozenset(found) if len(found) <= _LARGEST else None


def _cases(character: str, flags: int) -> frozenset[str]:
    return frozenset({character, character.lower(), character.upper()} if flags & re.IGNORECASE else {character})
