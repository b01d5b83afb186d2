"""Converting one version of one stage: gears, masks, compiled graphs, proof, description."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from voxrepo.convert.gear_choice import BATCH, FRAMES, IDS, GearRequest, choose_gears, longest_frames
from voxrepo.convert.gear_proof import GearProof, prove_gears
from voxrepo.convert.gears import Gear
from voxrepo.convert.masked_generator import MASK, add_mask
from voxrepo.convert.onnx_graph import read_onnx
from voxrepo.convert.plan import gear_plan
from voxrepo.convert.proof_cases import Speaker, decoder_pieces, generator_cases
from voxrepo.convert.records import LengthRecord
from voxrepo.convert.soc import Soc
from voxrepo.convert.sources import PROVENANCE_KEY, StageSource
from voxrepo.convert.target import BuildRequest, Progress, Target, part_of
from voxrepo_contract.errors import ConfigError, ConversionRefused
from voxrepo_contract.stage import (
    AnyStage,
    GraphSpec,
    GraphTensor,
    LengthRegulatedStage,
    WindowedStage,
    sha256_of,
    write_stage,
)

SAMPLES = "samples"

CONVERTER_VERSION = 1
"""Raised with every change of what a conversion makes of the same source, or older results would pass for new ones."""


@dataclass(frozen=True)
class Job:
    """What a conversion is asked for, the same for all stages of a voice.

    Attributes:
        target: compiler.
        soc: chip.
        precision: of the compiled graphs.
        gears: as the user says.
        record: lengths to propose gears from.
        record_name: what the record is, for ``provenance``.
        longest_ids: ids of the longest segment that the text front end makes.
        command: the command line.
    """

    target: Target
    soc: Soc
    precision: str
    gears: GearRequest
    record: LengthRecord
    record_name: str
    longest_ids: int
    command: str


@dataclass(frozen=True)
class ConvertedStage:
    """A new version, in its staging folder.

    Attributes:
        spec: what its ``stage.yaml`` says.
        proofs: by graph.
    """

    spec: AnyStage
    proofs: dict[str, GearProof]


def stage_gears(source: StageSource, job: Job) -> dict[str, list[Gear]]:
    """Gears of every graph of a stage.

    Raises:
        ConfigError: a program whose graphs have no gears.
        AtcRefusal: more gears than a graph can have.
        InvalidArgument: lengths that do not suit the graph.
    """
    spec = source.spec
    if isinstance(spec, LengthRegulatedStage):
        ids = min(spec.options.max_ids_per_segment, job.longest_ids)
        frames = min(spec.options.max_frames_per_segment, longest_frames(job.record, ids))
        return {
            "encoder": choose_gears("encoder", job.gears, job.record, longest=ids),
            "decoder": choose_gears("decoder", job.gears, job.record, longest=frames),
        }
    if isinstance(spec, WindowedStage):
        overlap = spec.options.overlap_frames
        return {
            "generator": choose_gears("generator", job.gears, job.record, longest=0, overlap_frames=overlap),
        }
    raise ConfigError(f"program: {spec.program!r} cannot be converted yet", file=source.folder)


def conversion_key(source: StageSource, job: Job, gears: Mapping[str, Sequence[Gear]]) -> str:
    """Hash of all that decides about the result: two conversions with one key make the same version."""
    facts = {
        "converter": CONVERTER_VERSION,
        "target": job.target.name,
        "tools": job.target.tools(),
        "soc": job.soc.name,
        "precision": job.precision,
        "graphs": {name: graph.sha256 for name, graph in source.spec.graphs.items()},
        "options": source.spec.options.model_dump(mode="json"),
        "gears": {name: [[gear.batch, gear.length] for gear in chosen] for name, chosen in gears.items()},
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def convert_stage(
    source: StageSource,
    job: Job,
    gears: Mapping[str, Sequence[Gear]],
    speaker: Speaker,
    folder: Path,
    progress: Progress,
) -> ConvertedStage:
    """Build, prove and describe a converted version in ``folder``.

    Raises:
        AtcRefusal: a graph is not what the device's compiler takes.
        ConversionRefused: a graph cannot be masked, or its gears not proved.
        ConfigError: a file cannot be read or written.
    """
    graphs: dict[str, GraphSpec] = {}
    proofs: dict[str, GearProof] = {}
    for number, (name, chosen) in enumerate(gears.items()):
        told = part_of(progress, number / len(gears), 1 / len(gears))
        spec, model = _prepared(source, name)
        spec = spec.model_copy(update={"gears": _joint_gears(source, spec, chosen)})
        plan = gear_plan({tensor.name: tensor.dims for tensor in spec.inputs}, spec.gears)
        file = folder / f"{name}.om"
        request = BuildRequest(name, model, plan, job.soc, job.precision, job.command)
        job.target.build(request, file, part_of(told, 0.0, 0.3))
        reference = job.target.reference_model(file)
        proofs[name] = _prove(source, name, spec, reference, speaker, part_of(told, 0.3, 0.7))
        graphs[name] = spec.model_copy(update={"file": file.name, "sha256": sha256_of(file)})
    converted = _described(source, job, gears, graphs, proofs)
    write_stage(folder, converted)
    return ConvertedStage(converted, proofs)


def _prepared(source: StageSource, name: str) -> tuple[GraphSpec, onnx.ModelProto]:
    """The graph as it is compiled, and its tensors."""
    spec = source.spec.graphs[name]
    file = source.graph_file(name)
    model = read_onnx(file)
    spec = spec.model_copy(update={"device": "npu"})
    if name != "generator":
        return spec, model
    try:
        model = add_mask(model)
    except ConversionRefused as error:
        raise ConversionRefused(f"{file}: {error}") from error
    features = spec.inputs[0]
    mask = GraphTensor(name=MASK, dtype="FP32", dims=[features.dims[0], 1, features.dims[-1]])
    return spec.model_copy(update={"inputs": [features, mask]}), model


def _length_axis(name: str) -> str:
    return IDS if name == "encoder" else FRAMES


def _joint_gears(source: StageSource, spec: GraphSpec, chosen: Sequence[Gear]) -> list[dict[str, int]]:
    """Gears with a size for every axis name that occurs in the graph's tensors."""
    axes = {dim for tensor in (*spec.inputs, *spec.outputs) for dim in tensor.dims if isinstance(dim, str)}
    length_axis = IDS if IDS in axes else FRAMES
    strange = axes - {BATCH, length_axis, SAMPLES}
    hop = source.spec.interface.hop_length_samples
    if strange or BATCH not in axes or (SAMPLES in axes and hop is None):
        raise ConfigError(
            f"graphs: the graph {spec.file} must have the axes {BATCH} and {length_axis}, and interface a "
            f"hop_length_samples where it makes samples (its axes are {sorted(axes)})",
            file=source.folder,
        )
    return [
        {
            BATCH: gear.batch,
            length_axis: gear.length,
            **({SAMPLES: gear.length * (hop or 0)} if SAMPLES in axes else {}),
        }
        for gear in chosen
    ]


def _prove(
    source: StageSource, name: str, spec: GraphSpec, model: bytes, speaker: Speaker, progress: Progress
) -> GearProof:
    axis = _length_axis(name)
    longest = max(gear[axis] for gear in spec.gears)
    progress(f"running the {name} of version {source.version}", 0.0)
    if name == "encoder":
        cases = speaker.encoder_cases(longest)
    elif name == "decoder":
        cases = decoder_pieces(source, speaker.decoder_cases(), longest)
    else:
        cases = generator_cases(source, speaker.decoder_cases(), longest)
    return prove_gears(name, model, spec, axis, cases, len(speaker.texts), progress)


def _described(
    source: StageSource,
    job: Job,
    gears: Mapping[str, Sequence[Gear]],
    graphs: dict[str, GraphSpec],
    proofs: Mapping[str, GearProof],
) -> AnyStage:
    old = source.spec
    note: dict[str, Any] = {
        "command": job.command,
        "target": job.target.name,
        "soc": job.soc.name,
        "precision": job.precision,
        "source_version": source.version,
        "source_graphs": {name: graph.sha256 for name, graph in old.graphs.items()},
        "gears_from": job.record_name,
        "tools": job.target.tools(),
        "key": conversion_key(source, job, gears),
    }
    changes: dict[str, Any] = {
        "graphs": graphs,
        "quality": {**old.quality, PROVENANCE_KEY: {name: proof.table() for name, proof in proofs.items()}},
        "provenance": {**old.provenance, PROVENANCE_KEY: note},
    }
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
