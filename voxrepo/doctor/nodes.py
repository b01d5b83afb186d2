"""Names of the NPU's device nodes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NODE = re.compile(r"(v?)davinci([0-9]+)")


def npu_nodes(names: Iterable[str]) -> list[str]:
    """Those that are a chip (``davinci0``), then those that are a slice of one (``vdavinci100``), each by number."""
    found = [match for match in map(_NODE.fullmatch, names) if match]
    return [match.group() for match in sorted(found, key=lambda match: (match.group(1), int(match.group(2))))]
