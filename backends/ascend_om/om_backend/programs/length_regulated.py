"""``length_regulated``: encoder graph, expansion on the host, decoder graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from om_backend.cost_store import CostStore
from om_backend.expansion import EXPANSIONS, Expansion
from om_backend.job import Job, run_isolated
from om_backend.length_regulator import FloatArray
from om_backend.noise import DURATION, PRIOR, gaussian
from om_backend.output_checks import Rejections
from om_backend.packing import Shape, shortest_first
from om_backend.programs.sized_graph import SizedGraph
from om_backend.runtime import Array, Graph
from om_backend.segments import read_segments
from voxrepo_contract import tensors
from voxrepo_contract.errors import InvalidArgument, VoxrepoError
from voxrepo_contract.pieces import FIRST_SEGMENT
from voxrepo_contract.stage import LengthRegulatedStage

WARM_UP_IDS = (400, 96, 32)
"""Typical segment lengths in ids: the longest that the front end makes, a sentence, a word or two. The longest first,
so that the memory of later, shorter ones lies within what it took."""
REFERENCE_IDS = 96
REFERENCE_FRAMES = 256
MAX_FIRST_SEGMENT = 2**31 - 1


@dataclass
class _Utterance:
    """A job's checked inputs and the features of its segments as they come."""

    job: Job
    pause_ms: npt.NDArray[np.int32]
    speaker_id: int
    seed: int
    duration_scale: float
    noise_scale: float
    noise_w_scale: float
    segments: list[npt.NDArray[np.int64]]
    first_segment: int
    features: dict[int, FloatArray] = field(default_factory=dict)


@dataclass
class _Unit:
    """One segment of one request."""

    utterance: _Utterance
    index: int
    states: dict[str, FloatArray] = field(default_factory=dict)
    counts: npt.NDArray[np.int64] | None = None

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        return self.utterance.segments[self.index]

    @property
    def number(self) -> int:
        """Index of the segment within its utterance, of which the request may hold a part."""
        return self.utterance.first_segment + self.index

    @property
    def frames(self) -> int:
        assert self.counts is not None
        return int(self.counts.sum())


class LengthRegulatedProgram:
    """Phoneme ids to acoustic features for VITS and FastSpeech 2; see ``LengthRegulatedOptions`` for the graphs.

    A graph with gears gets every row padded to the gear with zeros, its true length in ``lengths`` or ``mask``, and
    rows beyond the units with length 0. What it returns there is cut off unseen.

    Attributes:
        rejections: results that were not fit to be sent.
    """

    def __init__(
        self,
        stage: LengthRegulatedStage,
        graphs: Mapping[str, Graph],
        unit_batch: int | None,
        store: CostStore | None = None,
    ) -> None:
        self._options = stage.options
        self._expansion: Expansion = EXPANSIONS[stage.options.expansion]()
        self._encoder = SizedGraph(
            graphs["encoder"], stage.graphs["encoder"], "phoneme_ids", 1, unit_batch=unit_batch, store=store
        )
        self._decoder = SizedGraph(
            graphs["decoder"], stage.graphs["decoder"], "latent", 2, unit_batch=unit_batch, store=store
        )
        self._speakers = stage.interface.speakers or 1
        self.rejections = Rejections()

    def warm_up(self) -> str:
        """Run typical lengths, or every gear; measure what calls cost unless the batch size was given."""

        def job_of(ids: int) -> Job:
            inputs: dict[str, Array] = {
                "phoneme_ids": np.ones((1, ids), np.int64),
                "segment_lengths": np.full((1, 1), ids, np.int32),
                "pause_ms": np.zeros((1, 1), np.int32),
                "speed": np.ones((1, 1), np.float32),
                "speaker_id": np.zeros((1, 1), np.int64),
                "seed": np.zeros((1, 1), np.int64),
            }
            return Job(inputs, {}, lambda outputs: None, _raise)

        def unit_of(ids: int) -> _Unit:
            # a gear may be longer than what requests are allowed, hence not read as a request of that length
            return _Unit(replace(self._read(job_of(1)), segments=[np.ones(ids, np.int64)]), 0)

        def encoder_call(shape: Shape) -> Callable[[], object]:
            feeds = self._encoder_feeds([unit_of(shape.length)] * shape.batch, shape)
            return lambda: self._encoder.run(feeds)

        def decoder_call(shape: Shape) -> Callable[[], object]:
            unit = unit_of(1)
            unit.states = dict.fromkeys(self._expansion.states, np.zeros((channels, 1), np.float32))
            unit.counts = np.array([shape.length], np.int64)
            feeds = self._decoder_feeds([unit] * shape.batch, shape)
            return lambda: self._decoder.run(feeds)

        self._encoder.measure(encoder_call, REFERENCE_IDS)
        some_ids = min(REFERENCE_IDS, self._encoder.table.longest or REFERENCE_IDS)
        feeds = self._encoder_feeds([unit_of(some_ids)], self._encoder.shape(1, some_ids))
        channels = self._encoder.run(feeds)[next(iter(self._expansion.states))].shape[1]
        self._decoder.measure(decoder_call, REFERENCE_FRAMES)
        if not (self._encoder.gears or self._decoder.gears):
            for ids in WARM_UP_IDS:
                self.run([job_of(min(ids, self._options.max_ids_per_segment))])
        return f"encoder {self._encoder.describe()}, decoder {self._decoder.describe()}"

    def run(self, jobs: list[Job]) -> None:
        """Answer every job; each as soon as its own segments are done."""
        units: list[_Unit] = []
        for job in jobs:
            try:
                utterance = self._read(job)
            except VoxrepoError as error:
                job.fail(error)
                continue
            units.extend(_Unit(utterance, index) for index in range(len(utterance.segments)))
        work = [sum(len(segment) for segment in unit.utterance.segments) for unit in units]
        calls = shortest_first(self._encoder.pack([len(unit.ids) for unit in units]), work)
        groups = [[units[index] for index in call.units] for call in calls]
        if self._decoder.gears:
            # full calls are worth more than early ones: all frames are pooled before the first is decoded
            self._run_groups(groups)
        else:
            # a group goes all the way before the next starts, so that the first requests leave early
            for group in groups:
                self._run_groups([group])

    def _run_groups(self, groups: list[list[_Unit]]) -> None:
        for group in groups:
            run_isolated(group, self._encode, _job)
        encoded = [unit for group in groups for unit in group if not unit.utterance.job.answered]
        work = [sum(len(segment) for segment in unit.utterance.segments) for unit in encoded]
        for call in shortest_first(self._decoder.pack([unit.frames for unit in encoded]), work):
            decoded = [encoded[index] for index in call.units]
            run_isolated(decoded, self._decode, _job)
            for unit in decoded:
                utterance = unit.utterance
                if len(utterance.features) == len(utterance.segments) and not utterance.job.answered:
                    utterance.job.finish(_outputs(utterance))

    def _read(self, job: Job) -> _Utterance:
        segments, pause_ms = read_segments(job, tensors.PHONEME_IDS, tensors.SEGMENT_LENGTHS)
        longest = max(map(len, segments))
        if longest > self._options.max_ids_per_segment:
            raise InvalidArgument(
                f"segment_lengths: a segment has {longest} ids; the limit is {self._options.max_ids_per_segment}"
            )
        gear_ids = self._encoder.table.longest
        if gear_ids is not None and longest > gear_ids:
            raise InvalidArgument(
                f"segment_lengths: a segment has {longest} ids; the longest gear of {self._encoder.file} takes "
                f"{gear_ids}: send shorter segments, or serve a version converted with a longer gear"
            )
        id_count = self._options.id_count
        ids = job.row(tensors.PHONEME_IDS).astype(np.int64)
        if (ids < 0).any() or (id_count is not None and (ids >= id_count).any()):
            raise InvalidArgument(f"phoneme_ids must be from 0 to {(id_count or 2**31) - 1}")
        speed = float(job.scalar(tensors.SPEED))
        if not 0 < speed < float("inf"):
            raise InvalidArgument(f"speed must be a positive number, got {speed}")
        speaker_id = int(job.scalar(tensors.SPEAKER_ID))
        if not 0 <= speaker_id < self._speakers:
            raise InvalidArgument(f"speaker_id must be from 0 to {self._speakers - 1}, got {speaker_id}")
        options = self._options
        if not self._expansion.has_noise:
            _refuse_noise(job)
        return _Utterance(
            job=job,
            pause_ms=pause_ms,
            speaker_id=speaker_id,
            seed=int(job.scalar(tensors.SEED)),
            duration_scale=options.length_scale / speed,
            noise_scale=job.number("noise_scale", options.noise_scale, 0.0, tensors.NOISE_SCALE_MAX),
            noise_w_scale=job.number("noise_w_scale", options.noise_w_scale, 0.0, tensors.NOISE_SCALE_MAX),
            segments=[segment.astype(np.int64) for segment in segments],
            first_segment=job.whole_number(FIRST_SEGMENT, 0, low=0, high=MAX_FIRST_SEGMENT),
        )

    def _encode(self, group: Sequence[_Unit]) -> None:
        shape = self._encoder.shape(len(group), max(len(unit.ids) for unit in group))
        outputs = self._encoder.run(self._encoder_feeds(group, shape))
        for row, unit in enumerate(group):
            if unit.utterance.job.answered:
                continue
            try:
                self._take_encoded(unit, outputs, row)
            except VoxrepoError as error:
                # rows do not depend on each other, so the others are sound
                unit.utterance.job.fail(error)

    def _encoder_feeds(self, group: Sequence[_Unit], shape: Shape) -> dict[str, Array]:
        ids = np.zeros(shape, np.int64)
        lengths = np.zeros(shape.batch, np.int64)
        for row, unit in enumerate(group):
            count = len(unit.ids)
            ids[row, :count] = unit.ids
            lengths[row] = count
        feeds: dict[str, Array] = {"phoneme_ids": ids, "lengths": lengths}
        if self._encoder.has_input("duration_noise"):
            feeds["duration_noise"] = _duration_noise(group, shape)
        return self._with_speakers(self._encoder, feeds, group, shape)

    def _take_encoded(self, unit: _Unit, outputs: Mapping[str, Array], row: int) -> None:
        count = len(unit.ids)
        file = self._encoder.file
        # copies: what a device returns is overwritten by the next call
        states = {name: np.array(outputs[name][row, :, :count], np.float32) for name in self._expansion.states}
        durations = outputs["durations"][row, 0, :count].astype(np.float32, copy=False)
        # the predictor has no upper bound, so infinite durations are clamped with the other long ones
        if np.isnan(durations).any():
            raise self.rejections.reject("not_finite", file, "returned durations that are not numbers")
        for name, described in self._expansion.states.items():
            self.rejections.check_finite(states[name], file, described)
        counts = self._expansion.counts(
            durations,
            unit.utterance.duration_scale,
            self._options.max_frames_per_id,
            self._options.max_frames_per_segment,
        )
        gear_frames = self._decoder.table.longest
        if gear_frames is not None and counts.sum() > gear_frames:
            raise InvalidArgument(
                f"segment_lengths: segment {unit.number} of {count} ids takes {counts.sum()} frames at this speed; the "
                f"longest gear of {self._decoder.file} takes {gear_frames}: send shorter segments or a higher speed, "
                "or serve a version converted with a longer gear"
            )
        unit.states, unit.counts = states, counts

    def _decode(self, group: Sequence[_Unit]) -> None:
        shape = self._decoder.shape(len(group), max(unit.frames for unit in group))
        features = self._decoder.run(self._decoder_feeds(group, shape))["features"]
        for row, unit in enumerate(group):
            if unit.utterance.job.answered:
                continue
            part = features[row, :, : unit.frames].T
            try:
                self.rejections.check_finite(part, self._decoder.file, "features")
            except VoxrepoError as error:
                unit.utterance.job.fail(error)
                continue
            unit.utterance.features[unit.index] = np.array(part, np.float32, order="C")

    def _decoder_feeds(self, group: Sequence[_Unit], shape: Shape) -> dict[str, Array]:
        channels = next(iter(group[0].states.values())).shape[0]
        latents = np.zeros((shape.batch, channels, shape.length), np.float32)
        mask = np.zeros((shape.batch, 1, shape.length), np.float32)
        for row, unit in enumerate(group):
            assert unit.counts is not None
            utterance = unit.utterance
            noise = partial(gaussian, utterance.seed, unit.number, PRIOR)
            latents[row, :, : unit.frames] = self._expansion.expand(
                unit.states, unit.counts, noise, utterance.noise_scale
            )
            mask[row, 0, : unit.frames] = 1
        return self._with_speakers(self._decoder, {"latent": latents, "mask": mask}, group, shape)

    def _with_speakers(
        self, graph: SizedGraph, feeds: dict[str, Array], group: Sequence[_Unit], shape: Shape
    ) -> dict[str, Array]:
        if graph.has_input("speaker_id"):
            speaker_ids = np.zeros(shape.batch, np.int64)
            speaker_ids[: len(group)] = [unit.utterance.speaker_id for unit in group]
            feeds["speaker_id"] = speaker_ids
        return feeds


def _duration_noise(group: Sequence[_Unit], shape: Shape) -> FloatArray:
    noise = np.zeros((shape.batch, 2, shape.length), np.float32)
    for row, unit in enumerate(group):
        count, utterance = len(unit.ids), unit.utterance
        noise[row, :, :count] = gaussian(utterance.seed, unit.number, DURATION, (2, count))
        noise[row] *= np.float32(utterance.noise_w_scale)
    return noise


def _refuse_noise(job: Job) -> None:
    for name in ("noise_scale", "noise_w_scale"):
        if job.number(name, 0.0, 0.0, tensors.NOISE_SCALE_MAX):
            raise InvalidArgument(f"parameter {name!r}: this voice speaks without noise; leave it out, or give 0")


def _job(unit: _Unit) -> Job:
    return unit.utterance.job


def _outputs(utterance: _Utterance) -> dict[str, Array]:
    parts = [utterance.features[index] for index in range(len(utterance.segments))]
    return {
        "features": np.concatenate(parts)[np.newaxis],
        "frame_lengths": np.array([[len(part) for part in parts]], np.int32),
        "pause_ms": utterance.pause_ms[np.newaxis],
    }


def _raise(error: VoxrepoError) -> None:
    raise error
