"""Operators that an Ascend chip lacks or runs slowly, replaced by equal ones that it has.

One rule is one small rewriting: which operator, what it becomes, why, and where the knowledge is from.
:func:`apply_rules` applies them all. What a rule cannot replace without changing the result it leaves alone.
"""

from __future__ import annotations

from voxrepo.convert.rules.engine import apply_rules, fix_shapes
from voxrepo.convert.rules.rule import AppliedRule, Rule
from voxrepo.convert.rules.table import INTERFACE_RULES, RULES

__all__ = ["INTERFACE_RULES", "RULES", "AppliedRule", "Rule", "apply_rules", "fix_shapes"]
