"""Lowering the graphs of one version of a stage, and having the result judged."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from voxrepo.convert.judging import Judged, StageJudge, candidate_in
from voxrepo.convert.masked_generator import MASK, add_mask
from voxrepo.convert.onnx_graph import read_onnx
from voxrepo.convert.onnx_target import optimised
from voxrepo.convert.precision.calibration import check_size
from voxrepo.convert.precision.choice import Choice, Models, as_given, searched
from voxrepo.convert.precision.damage import Measure, noise, sound
from voxrepo.convert.precision.lowerer import Lowerer, Rows, must_be_lowered
from voxrepo.convert.precision.nodes import check_names, plain
from voxrepo.convert.precision.search import Opinion
from voxrepo.convert.precision.tiers import FP16, FP32
from voxrepo.convert.proof_cases import Speaker, feature_parts, pieces
from voxrepo.convert.rules import apply_rules
from voxrepo.convert.soc import Soc
from voxrepo.convert.sources import StageSource
from voxrepo.convert.target import Progress, Target
from voxrepo_contract.errors import ConversionRefused, InvalidArgument
from voxrepo_contract.stage import WindowedStage

LONGEST_ROW_FRAMES = 512
"""Longer pieces tell nothing more about ranges, and take memory."""


@dataclass(frozen=True)
class LoweredStage:
    """The graphs of a stage at a precision, before shapes are fixed.

    Attributes:
        choice: lowered graphs of the source's inputs and outputs, and what stays in FP32.
        built: the graphs to compile: lowered, or FP32 for a compiler that lowers itself; a generator with its mask
            where it gets gears.
        checks: ONNX graphs that compute on a CPU what the compiled ones shall.
        floats: the same before lowering.
        rules: what was replaced, by graph: number of nodes by rule.
        judged: what the judge says; None at FP32.
        rows: inputs on calibration texts, by graph.
    """

    choice: Choice
    built: dict[str, onnx.ModelProto]
    checks: dict[str, onnx.ModelProto]
    floats: dict[str, onnx.ModelProto]
    rules: dict[str, dict[str, int]]
    judged: Judged | None
    rows: dict[str, Rows]


def lower_stage(
    source: StageSource,
    graphs: Sequence[str],
    target: Target,
    soc: Soc,
    precision: str,
    *,
    exclude: Sequence[str],
    force: bool,
    speaker: Speaker,
    judge: StageJudge | None,
    scratch: Path,
    progress: Progress,
) -> LoweredStage:
    """Prepare and lower the graphs of a stage.

    Args:
        source: what is converted.
        graphs: names of its graphs.
        target: what compiles them.
        soc: chip.
        precision: ``fp32``, ``fp16``, ``mixed`` or ``int8``.
        exclude: names of nodes that stay in FP32.
        force: take the result though the judge refuses it; then nothing is searched.
        speaker: speaks the calibration texts.
        judge: of the stage; None to have nothing judged.
        scratch: folder in which candidates are written.
        progress: is told a sentence and the share done.

    Raises:
        InvalidArgument: a name in ``exclude`` is not there, or the calibration set is too small.
        ConversionRefused: a graph cannot be lowered or masked, or the gates are missed.
    """
    progress("reading and preparing the graphs", 0.0)
    plain_models: dict[str, onnx.ModelProto] = {}
    masked_models: dict[str, onnx.ModelProto] = {}
    rules: dict[str, dict[str, int]] = {}
    for name in graphs:
        model = plain(read_onnx(source.graph_file(name)))
        if target.device == "npu":
            plain_models[name], rules[name] = _with_rules(model, soc)
            masked_models[name] = plain_models[name]
            if name == "generator":
                masked_models[name], rules[name] = _with_rules(_masked(source, name, model), soc)
        else:
            plain_models[name] = masked_models[name] = optimised(model)
            rules[name] = {}
    if precision == FP32:
        if exclude:
            raise InvalidArgument("--exclude names layers that are not lowered, and at fp32 none is; leave it out")
        choice = Choice({name: {} for name in graphs}, plain_models)
        return LoweredStage(choice, masked_models, masked_models, masked_models, rules, None, {})
    rows = _rows(source, graphs, speaker)
    progress("looking at ranges of values", 0.1)
    lowerers = {name: Lowerer(plain_models[name], precision, rows[name], target.device) for name in graphs}
    must_be_lowered(lowerers, precision)
    excluded = check_names(exclude, {name: lowerer.layers for name, lowerer in lowerers.items()})
    court = _Court(source, judge, scratch, progress)
    if precision == FP16 or force or judge is None:
        choice = as_given(lowerers, excluded)
    else:
        rate_hz = source.spec.interface.sample_rate_hz
        measures: dict[str, Measure] = {
            name: sound(rate_hz) if name == "generator" and rate_hz else noise for name in graphs
        }
        choice = searched(lowerers, excluded, court.quick, court.thorough, rows, measures, court.tell)
    judged = None if judge is None else court.final(choice.models)
    if judged is not None and not judged.accepted and not force:
        if judged.open:
            raise ConversionRefused(
                f"the {source.stage} at {precision} could not be judged: {'; '.join(judged.reasons)}. --force takes it "
                "unjudged"
            )
        way = "--precision mixed finds what to keep in FP32" if precision == FP16 else "--exclude keeps more layers"
        raise ConversionRefused(
            f"the {source.stage} at {precision} does not pass the gates: {'; '.join(judged.reasons)}. {way}, and "
            "--force takes it as it is"
        )
    built, checks, floats = {}, {}, {}
    for name in graphs:
        lowerer = lowerers[name]
        if masked_models[name] is not plain_models[name]:
            masked_rows = [{**row, MASK: np.ones((1, 1, row["features"].shape[2]), np.float32)} for row in rows[name]]
            lowerer = Lowerer(masked_models[name], precision, masked_rows, target.device)
        floats[name] = lowerer.model
        checks[name] = lowerer.at(choice.kept[name])
        built[name] = lowerer.model if target.lowers_itself else checks[name]
    return LoweredStage(choice, built, checks, floats, rules, judged, rows)


def _with_rules(model: onnx.ModelProto, soc: Soc) -> tuple[onnx.ModelProto, dict[str, int]]:
    changed, applied = apply_rules(model, soc)
    counts: dict[str, int] = {}
    for rule in applied:
        counts[rule.rule] = counts.get(rule.rule, 0) + 1
    return plain(changed), dict(sorted(counts.items()))


def _masked(source: StageSource, name: str, model: onnx.ModelProto) -> onnx.ModelProto:
    try:
        return add_mask(model)
    except ConversionRefused as error:
        raise ConversionRefused(f"{source.graph_file(name)}: {error}") from error


def _rows(source: StageSource, graphs: Sequence[str], speaker: Speaker) -> dict[str, Rows]:
    spoken = speaker.decoder_cases()
    check_size(len(speaker.texts), sum(case.sizes["frames"] for case in spoken))
    rows: dict[str, Rows] = {}
    for name in graphs:
        if name == "encoder":
            rows[name] = [case.inputs for case in speaker.encoder_cases(max(len(text.ids) for text in speaker.texts))]
        elif name == "decoder":
            rows[name] = list(pieces(spoken, LONGEST_ROW_FRAMES))
        else:
            least = source.spec.options.min_frames if isinstance(source.spec, WindowedStage) else 1
            rows[name] = [
                {"features": part}
                for case in spoken
                for part in feature_parts(case.outputs["features"], LONGEST_ROW_FRAMES, least)
            ]
    return rows


class _Court:
    """Writes candidates and has them judged; what was judged once is remembered."""

    def __init__(self, source: StageSource, judge: StageJudge | None, scratch: Path, progress: Progress) -> None:
        self._source = source
        self._judge = judge
        self._scratch = scratch
        self._progress = progress
        self._said: dict[tuple[bool, str], Judged] = {}

    def tell(self, text: str) -> None:
        self._progress(text, 0.2)

    def quick(self, models: Models) -> Opinion:
        return self._ask(models, searching=True).opinion()

    def thorough(self, models: Models) -> Opinion:
        judged = self.final(models)
        if judged.open:
            raise ConversionRefused(
                f"the {self._source.stage} cannot be judged, so nothing can be searched: {'; '.join(judged.reasons)}"
            )
        return judged.opinion()

    def final(self, models: Models) -> Judged:
        return self._ask(models, searching=False)

    def _ask(self, models: Models, *, searching: bool) -> Judged:
        assert self._judge is not None
        digest = hashlib.sha256()
        for name in sorted(models):
            digest.update(models[name].SerializeToString(deterministic=True))
        key = searching, digest.hexdigest()
        if key not in self._said:
            what = "searching what to keep" if searching else "judging the quality"
            asked = len(self._said)
            self._progress(f"{what}, trial {asked + 1}", 0.2 + 0.7 * (1 - 0.95**asked))
            with tempfile.TemporaryDirectory(prefix="candidate-", dir=self._scratch) as folder:
                candidate_in(Path(folder), self._source, models)
                self._said[key] = self._judge(Path(folder), searching=searching)
        return self._said[key]
