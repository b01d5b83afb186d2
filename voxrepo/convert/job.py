"""What a conversion is asked for, and the key under which its result is found again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from voxrepo.convert.gear_choice import GearRequest
from voxrepo.convert.gears import Gear
from voxrepo.convert.judging import JudgeMaker
from voxrepo.convert.precision.calibration import CalibrationSet
from voxrepo.convert.precision.tiers import FP32, parse_precision
from voxrepo.convert.records import LengthRecord
from voxrepo.convert.soc import Soc
from voxrepo.convert.sources import StageSource
from voxrepo.convert.target import Target

CONVERTER_VERSION = 2
"""Raised with every change of what a conversion makes of the same source, or older results would pass for new ones."""


@dataclass(frozen=True)
class Job:
    """What a conversion is asked for, the same for all stages of a voice.

    Attributes:
        target: compiler.
        soc: chip.
        precision: tier of the compiled graphs: ``fp32``, ``fp16``, ``mixed`` or ``int8``.
        gears: as the user says.
        record: lengths to propose gears from.
        record_name: what the record is, for ``provenance``.
        longest_ids: ids of the longest segment that the text front end makes.
        command: the command line.
        exclude: nodes that stay in FP32 whatever is found.
        calibration: texts for ranges and scales; None for the voice's own.
        force: take a result that the judge refuses, without a search for a better one.
        extra: further arguments for the target's compiler.
        judges: makes the judge of lowered stages; None to have nothing judged.
    """

    target: Target
    soc: Soc
    precision: str
    gears: GearRequest
    record: LengthRecord
    record_name: str
    longest_ids: int
    command: str
    exclude: tuple[str, ...] = ()
    calibration: CalibrationSet | None = None
    force: bool = False
    extra: tuple[str, ...] = ()
    judges: JudgeMaker | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "precision", parse_precision(self.precision))


def conversion_key(source: StageSource, job: Job, gears: Mapping[str, Sequence[Gear]]) -> str:
    """Hash of all that decides about the result: two conversions with one key make the same version."""
    facts = {
        "converter": CONVERTER_VERSION,
        "target": job.target.name,
        "tools": job.target.tools(),
        "soc": job.soc.name,
        "precision": job.precision,
        "exclude": sorted(job.exclude),
        "calibration": None
        if job.calibration is None or job.precision == FP32
        else [list(text.ids) for text in job.calibration.texts],
        "force": job.force and job.precision != FP32,
        "extra": list(job.extra),
        "graphs": {name: graph.sha256 for name, graph in source.spec.graphs.items()},
        "options": source.spec.options.model_dump(mode="json"),
        "gears": {name: [[gear.batch, gear.length] for gear in chosen] for name, chosen in gears.items()},
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
