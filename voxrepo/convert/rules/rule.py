"""What a rule is, and what is told of its use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx

if TYPE_CHECKING:
    from voxrepo.convert.rules.workbench import Builder, Workbench

Rewrite = Callable[["Workbench", onnx.NodeProto, "Builder"], "str | None"]
"""Builds what replaces a node and returns a note, or returns ``None`` where the rule does not apply.

It must not build anything before it is sure to apply.
"""


@dataclass(frozen=True)
class Rule:
    """One replacement.

    Attributes:
        name: as reports name it.
        operators: ONNX operators that it looks at.
        becomes: what it builds, for people.
        reason: why the operator is not left as it is.
        source: where that is known from.
        rewrite: see :data:`Rewrite`.
    """

    name: str
    operators: tuple[str, ...]
    becomes: str
    reason: str
    source: str
    rewrite: Rewrite


@dataclass(frozen=True)
class AppliedRule:
    """A rule that was applied.

    Attributes:
        rule: its name.
        node: name of the node that it replaced; of a rule for the whole graph, of the first node that it changed.
        note: what was done, a sentence part.
        operator: type of the replaced node; empty for a rule for the whole graph.
    """

    rule: str
    node: str
    note: str
    operator: str = ""
