"""Refusals with the code under which Ascend's compiler (ATC) refuses the same thing."""

from __future__ import annotations

from voxrepo_contract.errors import InvalidArgument

BAD_VALUE = "E10001"
SYNTAX = "E10002"
DYNAMIC_FLAGS_CLASH = "E10009"
NO_GEARS = "E10011"
BATCH_GEARS_ELSEWHERE = "E10018"
NOT_IN_GRAPH = "E10016"
TOO_FEW_GEARS = "E10035"
TOO_MANY_GEARS = "E10036"
GEARS_UNEVEN = "E10037"
GEAR_NOT_POSITIVE = "E10038"
GEAR_TWICE = "E10039"
NOTHING_TO_FILL = "E10040"
NOT_LOADABLE = "E10041"
GEAR_TOO_SHORT = "E10045"
GEAR_UNLIKE = "E10046"
FLAGS_EXCLUDE = "E10047"
RANK = "E10049"
OM_TOO_LARGE = "E13023"
NO_NODES = "E16001"
NO_PARSER = "E19010"
UNSOUND = "E19999"
NO_KERNEL = "EZ3003"
"""The codes and their meaning as the graph engine's public table of errors has them. It has none for a graph that
contradicts itself: its ONNX parser and its shape inference report an inner error (``UNSOUND``). Of a gear with another
number of sizes than there are -1, the table knows too few of them (``GEAR_TOO_SHORT``); that one with too many has the
neighbouring code is our reading."""


class AtcRefusal(InvalidArgument):
    """What ATC would refuse.

    Args:
        code: its code there, e.g. ``E10016``.
        problem: what is wrong and what to do.
    """

    def __init__(self, code: str, problem: str) -> None:
        self.code = code
        self.problem = problem
        super().__init__(f"{code}: {problem}")
