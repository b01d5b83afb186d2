"""What ``stage.yaml`` says of a converted version: graphs, options, quality and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from voxrepo.convert.cost import cost_table, time_ratio
from voxrepo.convert.gear_proof import GearProof
from voxrepo.convert.gears import Gear
from voxrepo.convert.job import Job, conversion_key
from voxrepo.convert.precision.tiers import FP32
from voxrepo.convert.sources import PROVENANCE_KEY, StageSource
from voxrepo.convert.stage_lowering import LoweredStage
from voxrepo.convert.target import BuiltGraph
from voxrepo_contract.stage import AnyStage, GraphSpec, LengthRegulatedStage, WindowedStage

PRECISION_KEY = "precision"
"""Key of ``quality`` under which sizes, times and kept layers are noted, and what the judge said."""


def described(
    source: StageSource,
    job: Job,
    gears: Mapping[str, Sequence[Gear]],
    graphs: dict[str, GraphSpec],
    proofs: Mapping[str, GearProof],
    lowered: LoweredStage,
    built: Mapping[str, BuiltGraph],
) -> AnyStage:
    """The ``stage.yaml`` of a converted version.

    Args:
        source: what was converted.
        job: how.
        gears: by graph.
        graphs: as they were built.
        proofs: by graph.
        lowered: precision, and what was replaced.
        built: by graph.
    """
    old = source.spec
    note: dict[str, Any] = {
        "command": job.command,
        "target": job.target.name,
        "soc": job.soc.name,
        "precision": job.precision,
        "source_version": source.version,
        "source_graphs": {name: graph.sha256 for name, graph in old.graphs.items()},
        "rules": {name: counts for name, counts in lowered.rules.items() if counts},
        **_precision_note(job, lowered),
        **({"gears_from": job.record_name} if job.target.device == "npu" else {}),
        "tools": job.target.tools(),
        "key": conversion_key(source, job, gears),
    }
    changes: dict[str, Any] = {
        "graphs": graphs,
        "quality": {
            **old.quality,
            PROVENANCE_KEY: {name: proof.table() for name, proof in proofs.items()},
            **({PRECISION_KEY: _precision_table(source, job, lowered, built)} if job.precision != FP32 else {}),
        },
        "provenance": {**old.provenance, PROVENANCE_KEY: note},
    }
    if job.target.device == "cpu":
        return old.model_copy(update=changes)
    if isinstance(old, LengthRegulatedStage):
        longest = max(gear.length for gear in gears["encoder"])
        # frames are left as they were: durations beyond that limit are cut, and speech that only exceeds the longest
        # gear must be refused, not squeezed into it
        options = {"max_ids_per_segment": min(old.options.max_ids_per_segment, longest)}
        changes["options"] = old.options.model_copy(update=options)
    if isinstance(old, WindowedStage):
        window = max(gear.length for gear in gears["generator"])
        # a graph with gears plans by their lengths
        sizes = {"window_frames": window, "first_window_frames": None}
        changes["options"] = old.options.model_copy(update=sizes)
    return old.model_copy(update=changes)


def _precision_note(job: Job, lowered: LoweredStage) -> dict[str, Any]:
    if job.precision == FP32:
        return {}
    return {
        "excluded": list(job.exclude),
        "calibration": "the voice's own texts" if job.calibration is None else job.calibration.name,
        "forced": job.force and lowered.judged is not None and not lowered.judged.accepted,
    }


def _precision_table(
    source: StageSource, job: Job, lowered: LoweredStage, built: Mapping[str, BuiltGraph]
) -> dict[str, Any]:
    """Sizes and times, what stays in FP32 and why, and the judgement."""
    source_bytes = {name: source.graph_file(name).stat().st_size for name in built}
    made = {name: model.SerializeToString(deterministic=True) for name, model in lowered.choice.models.items()}
    sizes = {name: graph.file.stat().st_size if graph.is_built else len(made[name]) for name, graph in built.items()}
    ratios = {name: time_ratio(str(source.graph_file(name)), made[name], lowered.rows[name]) for name in built}
    table: dict[str, Any] = {
        "tier": job.precision,
        "graphs": cost_table(source_bytes, sizes, ratios),
        **lowered.choice.table(),
    }
    if lowered.judged is not None:
        table["accepted"] = lowered.judged.accepted
        if lowered.judged.reasons:
            table["refused_because"] = list(lowered.judged.reasons)
        table["judged"] = dict(lowered.judged.table)
    return table
