"""Refusals with the code under which Ascend's compiler (ATC) refuses the same thing."""

from __future__ import annotations

from voxrepo_contract.errors import InvalidArgument

BAD_VALUE = "E10001"
SYNTAX = "E10002"
DYNAMIC_FLAGS_CLASH = "E10009"
NO_GEARS = "E10011"
BATCH_GEARS_ELSEWHERE = "E10012"
NOT_IN_GRAPH = "E10016"
TOO_FEW_GEARS = "E10035"
TOO_MANY_GEARS = "E10036"
GEAR_COUNT = "E10037"
GEAR_NOT_POSITIVE = "E10038"
GEAR_TWICE = "E10039"
NOT_LOADABLE = "E10041"
FLAGS_EXCLUDE = "E10047"
RANK = "E10049"
OM_TOO_LARGE = "E13023"
BAD_ONNX = "E16002"
NO_PARSER = "E19010"
NO_KERNEL = "EZ3003"
"""The codes as Ascend's documentation lists them. It gives E10035 to E10039 as one family (number of gears); which of
them means which is our reading."""


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
