"""Ascend chips by name, and what is known of each family."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from voxrepo.convert.refusal import BAD_VALUE, AtcRefusal
from voxrepo_contract import yamlfile
from voxrepo_contract.yamlfile import StrictModel

FOLDER = Path(__file__).parent / "data" / "soc"

_FAMILIES = (
    (re.compile(r"Ascend910B[1-4](C|-\d)?"), "ascend910b"),
    (re.compile(r"Ascend910_93\d\d"), "ascend910_93"),
    (re.compile(r"Ascend910(A|B|ProA|ProB)"), "ascend910"),
    (re.compile(r"Ascend310P[1-7]"), "ascend310p"),
    (re.compile(r"Ascend310B[1-4]"), "ascend310b"),
)


class Family(StrictModel):
    """What the kernels of a chip family can do, as far as Ascend's public documentation tells.

    Attributes:
        title: what the chips are sold as.
        dtypes: element types that tensors may have, Open Inference Protocol names.
        range_graphs: whether graphs with ranges of sizes run on it.
        no_kernel: operators that its parser reads but that it has no kernel for, with what to do instead.
        kernel_dtypes: operators whose kernels take fewer element types than ``dtypes``.
    """

    title: str
    dtypes: list[str] = Field(min_length=1)
    range_graphs: bool = True
    no_kernel: dict[str, str] = Field(default_factory=dict)
    kernel_dtypes: dict[str, Annotated[list[str], Field(min_length=1)]] = Field(default_factory=dict)


@dataclass(frozen=True)
class Soc:
    """A chip, as ``--soc`` names it.

    Attributes:
        name: in full, e.g. ``Ascend910B3``.
        family: name of the file under ``data/soc``.
    """

    name: str
    family: str

    def properties(self) -> Family:
        """What is known of the family."""
        return _family(self.family)

    @property
    def note(self) -> str:
        """A sentence for names that are easily mistaken, else empty."""
        if self.name == "Ascend910B":
            return (
                "Ascend910B is the first generation of 910; a file for it does not load on 910B1 to 910B4. "
                "`npu-smi info` shows the full name"
            )
        return ""


@cache
def _family(name: str) -> Family:
    return yamlfile.read(FOLDER / f"{name}.yaml", Family)


def parse_soc(name: str) -> Soc:
    """The chip of that name.

    Raises:
        AtcRefusal: no such chip; the text lists what names look like.
    """
    for pattern, family in _FAMILIES:
        if pattern.fullmatch(name):
            return Soc(name, family)
    raise AtcRefusal(
        BAD_VALUE,
        f"--soc {name!r} is not a chip that is known here; write the name of `npu-smi info` with the prefix Ascend, "
        "such as Ascend910B3, Ascend910_9392, Ascend310P3 or Ascend310B4",
    )
