"""Converting one version of one stage: gears, masks, compiled graphs, proof, description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from voxrepo.convert.gear_choice import BATCH, FRAMES, IDS, choose_gears, longest_frames
from voxrepo.convert.gear_proof import GearProof, one_batch, prove_exact, prove_gears
from voxrepo.convert.gears import Gear
from voxrepo.convert.job import Job
from voxrepo.convert.judging import StageJudge
from voxrepo.convert.masked_generator import MASK
from voxrepo.convert.plan import gear_plan
from voxrepo.convert.precision.tiers import FP32, INT8
from voxrepo.convert.proof_cases import Array, Case, Speaker, decoder_pieces, generator_cases, open_session
from voxrepo.convert.reflection import takes_one_row
from voxrepo.convert.sources import StageSource
from voxrepo.convert.stage_description import described
from voxrepo.convert.stage_lowering import LoweredStage, lower_stage
from voxrepo.convert.target import BuildRequest, BuiltGraph, Progress, part_of
from voxrepo.importers.onnx_run import run
from voxrepo_contract.errors import ConfigError
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

NOT_BUILT_SHA256 = "0" * 64
"""Stands for the hash of a graph that its compiler makes elsewhere."""
LONGEST_PROOF = {IDS: 512, FRAMES: 1024}
"""Longest cases for graphs that take any size."""


@dataclass(frozen=True)
class ConvertedStage:
    """A new version, in its staging folder.

    Attributes:
        spec: what its ``stage.yaml`` says.
        proofs: by graph.
        built: by graph.
        kept: nodes that stay in FP32, by graph, with reasons.
        calibration: of graphs that another tool is to quantise: one batch of inputs of the largest gear.
    """

    spec: AnyStage
    proofs: dict[str, GearProof]
    built: dict[str, BuiltGraph]
    kept: dict[str, dict[str, str]]
    calibration: dict[str, dict[str, Array]] = field(default_factory=dict)

    @property
    def is_built(self) -> bool:
        """Whether all compiled graphs are there."""
        return all(graph.is_built for graph in self.built.values())


@dataclass(frozen=True)
class Voices:
    """Who speaks the texts of a conversion, and who judges it.

    Attributes:
        proof: speaks the texts that shapes are proved on.
        calibration: speaks other ones, that ranges and scales are taken from.
        judge: of this stage; None to have nothing judged.
    """

    proof: Speaker
    calibration: Speaker
    judge: StageJudge | None


def stage_gears(source: StageSource, job: Job) -> dict[str, list[Gear]]:
    """Gears of every graph of a stage; none for a CPU, whose graphs take any size.

    Raises:
        ConfigError: a program whose graphs have no gears.
        AtcRefusal: more gears than a graph can have.
        InvalidArgument: lengths that do not suit the graph.
    """
    spec = source.spec
    if job.target.device == "cpu":
        return {name: [] for name in spec.graphs}
    if isinstance(spec, LengthRegulatedStage):
        ids = min(spec.options.max_ids_per_segment, job.longest_ids)
        frames = min(spec.options.max_frames_per_segment, longest_frames(job.record, ids))
        return {
            "encoder": choose_gears("encoder", job.gears, job.record, longest=ids),
            "decoder": choose_gears("decoder", job.gears, job.record, longest=frames),
        }
    if isinstance(spec, WindowedStage):
        one_row = takes_one_row(source.graph_file("generator"))
        overlap = spec.options.overlap_frames
        return {
            "generator": choose_gears(
                "generator", job.gears, job.record, longest=0, overlap_frames=overlap, one_row=one_row
            ),
        }
    raise ConfigError(f"program: {spec.program!r} cannot be converted yet", file=source.folder)


def convert_stage(
    source: StageSource,
    job: Job,
    gears: Mapping[str, Sequence[Gear]],
    voices: Voices,
    folder: Path,
    progress: Progress,
) -> ConvertedStage:
    """Lower, build, prove and describe a converted version in ``folder``.

    Raises:
        AtcRefusal: a graph is not what the device's compiler takes.
        InvalidArgument: a layer to exclude is not there, or the calibration set is too small.
        ConversionRefused: a graph cannot be lowered or masked, its gears not proved, or the gates are missed.
        ConfigError: a file cannot be read or written.
    """
    lowered = lower_stage(
        source,
        list(gears),
        job.target,
        job.soc,
        job.precision,
        exclude=job.exclude,
        force=job.force,
        speaker=voices.calibration,
        judge=voices.judge,
        scratch=folder.parent,
        progress=part_of(progress, 0.0, 0.5 if job.precision != FP32 else 0.05),
    )
    graphs: dict[str, GraphSpec] = {}
    proofs: dict[str, GearProof] = {}
    built: dict[str, BuiltGraph] = {}
    for number, name in enumerate(gears):
        told = part_of(progress, 0.5 + 0.5 * number / len(gears), 0.5 / len(gears))
        spec, proofs[name], built[name] = _built(source, job, lowered, gears, name, voices.proof, folder, told)
        graphs[name] = spec
    converted = described(source, job, gears, graphs, proofs, lowered, built)
    write_stage(folder, converted)
    calibration = {
        name: one_batch(graphs[name], lowered.rows[name])
        for name, graph in built.items()
        if not graph.is_built and job.precision == INT8
    }
    return ConvertedStage(converted, proofs, built, lowered.choice.kept, calibration)


def _built(
    source: StageSource,
    job: Job,
    lowered: LoweredStage,
    gears: Mapping[str, Sequence[Gear]],
    name: str,
    speaker: Speaker,
    folder: Path,
    progress: Progress,
) -> tuple[GraphSpec, GearProof, BuiltGraph]:
    model = lowered.built[name]
    spec = _tensors(source, job, name, model)
    if gears[name]:
        spec = spec.model_copy(update={"gears": _joint_gears(source, spec, gears[name])})
    sizes = spec.gears or [_nominal(source, spec)]
    plan = gear_plan({tensor.name: tensor.dims for tensor in spec.inputs}, sizes)
    file = folder / f"{name}{job.target.suffix}"
    kept = tuple(lowered.choice.kept[name])
    request = BuildRequest(name, model, plan, job.soc, job.precision, job.command, kept, job.extra)
    built = job.target.build(request, file, part_of(progress, 0.0, 0.3))
    if built.is_built and not job.target.lowers_itself:
        reference = job.target.reference_model(file)
    else:
        # the compiler is elsewhere, or computes as no CPU does: what it is given is proved
        reference = lowered.checks[name].SerializeToString(deterministic=True)
    proof = _prove(source, job, lowered, name, spec, reference, speaker, part_of(progress, 0.3, 0.7))
    sha256 = sha256_of(file) if built.is_built else NOT_BUILT_SHA256
    return spec.model_copy(update={"file": file.name, "sha256": sha256}), proof, built


def _tensors(source: StageSource, job: Job, name: str, model: onnx.ModelProto) -> GraphSpec:
    """The graph's tensors as it is compiled: the source's, and a mask if it got one."""
    spec = source.spec.graphs[name].model_copy(update={"device": job.target.device})
    if MASK in {tensor.name for tensor in spec.inputs} or MASK not in {value.name for value in model.graph.input}:
        return spec
    features = spec.inputs[0]
    mask = GraphTensor(name=MASK, dtype="FP32", dims=[features.dims[0], 1, features.dims[-1]])
    return spec.model_copy(update={"inputs": [features, mask]})


def _nominal(source: StageSource, spec: GraphSpec) -> dict[str, int]:
    """Some size of every axis, for a graph that takes any."""
    axes = {dim for tensor in (*spec.inputs, *spec.outputs) for dim in tensor.dims if isinstance(dim, str)}
    return {axis: 1 if axis == BATCH else 64 for axis in sorted(axes)}


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
    source: StageSource,
    job: Job,
    lowered: LoweredStage,
    name: str,
    spec: GraphSpec,
    model: bytes,
    speaker: Speaker,
    progress: Progress,
) -> GearProof:
    axis = _length_axis(name)
    progress(f"running the {name} of version {source.version}", 0.0)
    longest = max((gear[axis] for gear in spec.gears), default=LONGEST_PROOF[axis])
    if name == "encoder":
        cases = speaker.encoder_cases(longest)
    elif name == "decoder":
        cases = decoder_pieces(source, speaker.decoder_cases(), longest)
    else:
        cases = generator_cases(source, speaker.decoder_cases(), longest)
    texts = len(speaker.texts)
    if job.precision == FP32:
        if not spec.gears:
            return prove_exact(name, model, spec, cases, texts)
        return prove_gears(name, model, spec, axis, cases, texts, progress)
    # what was judged is what the built graph is held against
    session = open_session(lowered.choice.models[name].SerializeToString())
    judged = [Case(case.sizes, case.inputs, run(session, case.inputs, f"the {name}, lowered,")) for case in cases]
    float_model = lowered.floats[name].SerializeToString(deterministic=True)
    if not spec.gears:
        proof = prove_exact(name, float_model, spec, cases, texts)
        proof.lowered = prove_exact(name, model, spec, judged, texts, job.precision)
        return proof
    proof = prove_gears(name, float_model, spec, axis, cases, texts, part_of(progress, 0.0, 0.5))
    told = part_of(progress, 0.5, 0.5)
    proof.lowered = prove_gears(f"lowered {name}", model, spec, axis, judged, texts, told, job.precision)
    return proof
