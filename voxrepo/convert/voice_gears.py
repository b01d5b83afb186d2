"""Gear plans of a voice's graphs, for people to read before they convert."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voxrepo.convert.call_cost import NPU_VOCODER, Cost
from voxrepo.convert.gear_choice import gear_task, graph_memory, longest_frames
from voxrepo.convert.gear_plan import GearPlan
from voxrepo.convert.gear_planner import plan_gears
from voxrepo.convert.gears import DEVICE_BATCHES
from voxrepo.convert.records import SHIPPED_RECORD, LengthRecord, read_record
from voxrepo.convert.reflection import takes_one_row
from voxrepo.convert.sources import StageSource, find_source, parse_what
from voxrepo.convert.text_lengths import lengths_of, read_texts
from voxrepo.convert.voice import front_end_of
from voxrepo.repository.layout import Layout
from voxrepo.repository.voice import read_voice
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.stage import LengthRegulatedStage, WindowedStage

SHIPPED_NAME = "the record that ships with voxrepo"


@dataclass(frozen=True)
class VoiceGears:
    """Plans of some graphs.

    Attributes:
        voice: its name.
        source: what the lengths are from.
        segments: how many.
        plans: by ``stage graph``.
        note: what the times are.
    """

    voice: str
    source: str
    segments: int
    plans: dict[str, GearPlan]
    note: str

    def summary(self) -> dict[str, Any]:
        """Plain values for ``--json``."""
        return {
            "voice": self.voice,
            "source": self.source,
            "segments": self.segments,
            "plans": {name: plan.table() for name, plan in self.plans.items()},
            "note": self.note,
        }


def plan_voice(
    layout: Layout,
    what: str,
    *,
    texts: Path | None,
    lengths: Path | None,
    max_gears: int,
    limit_bytes: int | None,
    cost: Cost = NPU_VOCODER,
) -> VoiceGears:
    """Plan the gears of every graph of a voice, or of one of its stages.

    Args:
        layout: the repository.
        what: ``VOICE[.stage[@version]]``.
        texts: file of texts, one a line, that the voice reads.
        lengths: record of lengths; without it and texts the one that ships.
        max_gears: per graph.
        limit_bytes: of device memory per graph; ``None`` for no limit.
        cost: estimated time of a call.

    Raises:
        InvalidArgument, NotFound: the request does not fit the repository, or the memory is too little.
        ConfigError: a file is wrong, or a stage whose graphs have no gears.
    """
    parsed = parse_what(what, layout.voice_names())
    spec = read_voice(layout, parsed.voice)
    _, front_end = front_end_of(layout, spec)
    if texts is not None:
        record, source = lengths_of(layout, spec, read_texts(texts)), texts.name
    else:
        record, source = read_record(lengths or SHIPPED_RECORD), SHIPPED_NAME if lengths is None else lengths.name
    plans: dict[str, GearPlan] = {}
    for stage in parsed.stages:
        found = find_source(layout, spec, stage, parsed.version)
        plans.update(_plan_stage(found, record, front_end.options.max_segment_ids, max_gears, limit_bytes, cost))
    note = (
        "times are estimates: "
        + (
            "a call costs as much as about 230 frames, as published for HiFi-GAN on a 310P3; give --call-ms and "
            "--unit-us as measured on your device"
            if cost is NPU_VOCODER
            else "a call costs what --call-ms and --unit-us say"
        )
        + "; pools of 1 to 32 units of the record are packed as the server would"
    )
    return VoiceGears(parsed.voice, source, len(record.ids), plans, note)


def _plan_stage(
    source: StageSource, record: LengthRecord, max_ids: int, max_gears: int, limit_bytes: int | None, cost: Cost
) -> dict[str, GearPlan]:
    spec = source.spec
    longest = {"generator": 0}
    overlap = 0
    if isinstance(spec, LengthRegulatedStage):
        longest_ids = min(spec.options.max_ids_per_segment, max_ids)
        longest = {
            "encoder": longest_ids,
            "decoder": min(spec.options.max_frames_per_segment, longest_frames(record, longest_ids)),
        }
    elif isinstance(spec, WindowedStage):
        overlap = spec.options.overlap_frames
    else:
        raise ConfigError(f"program: {spec.program!r} has no gears; it runs on a CPU at any size", file=source.folder)
    plans = {}
    for graph, most in longest.items():
        weights = source.graph_file(graph).stat().st_size
        hop = spec.interface.hop_length_samples or 1
        task = gear_task(
            graph,
            record,
            longest=most,
            overlap_frames=overlap,
            max_gears=max_gears,
            cost=cost,
            batches=(1,) if graph == "generator" and takes_one_row(source.graph_file(graph)) else DEVICE_BATCHES,
            memory=graph_memory(graph, spec.graphs[graph], hop, weights, limit_bytes),
        )
        plans[f"{source.stage} {graph}"] = plan_gears(task)
    return plans
