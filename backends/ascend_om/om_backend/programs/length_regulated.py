"""``length_regulated``: encoder graph, expansion on the host, decoder graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from om_backend import costs
from om_backend.cost_store import CostStore
from om_backend.job import Job, run_isolated
from om_backend.length_regulator import FloatArray, frame_counts, sample_prior
from om_backend.noise import DURATION, PRIOR, gaussian
from om_backend.packing import CallCost, pack, shortest_first
from om_backend.runtime import Array, Graph
from om_backend.segments import read_segments
from voxrepo_contract import tensors
from voxrepo_contract.errors import Internal, InvalidArgument, VoxrepoError
from voxrepo_contract.stage import LengthRegulatedStage

WARM_UP_IDS = (400, 96, 32)
"""Typical segment lengths in ids: the longest that the front end makes, a sentence, a word or two. The longest first,
so that the memory of later, shorter ones lies within what it took."""
REFERENCE_IDS = 96
REFERENCE_FRAMES = 256


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
    features: dict[int, FloatArray] = field(default_factory=dict)


@dataclass
class _Unit:
    """One segment of one request."""

    utterance: _Utterance
    index: int
    mean: FloatArray | None = None
    log_scale: FloatArray | None = None
    counts: npt.NDArray[np.int64] | None = None

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        return self.utterance.segments[self.index]

    @property
    def frames(self) -> int:
        assert self.counts is not None
        return int(self.counts.sum())


class LengthRegulatedProgram:
    """Phoneme ids to acoustic features for VITS-like stages; see ``LengthRegulatedOptions`` for the graphs."""

    def __init__(
        self,
        stage: LengthRegulatedStage,
        graphs: Mapping[str, Graph],
        unit_batch: int | None,
        store: CostStore | None = None,
    ) -> None:
        self._options = stage.options
        self._store = store or CostStore()
        self._sha256 = {name: graph.sha256 for name, graph in stage.graphs.items()}
        self._encoder = graphs["encoder"]
        self._decoder = graphs["decoder"]
        self._speakers = stage.interface.speakers or 1
        self._encoder_with_speaker = any(t.name == "speaker_id" for t in stage.graphs["encoder"].inputs)
        self._decoder_with_speaker = any(t.name == "speaker_id" for t in stage.graphs["decoder"].inputs)
        fixed = CallCost.per_call(unit_batch) if unit_batch else None
        self._encoder_cost = fixed or CallCost.per_call(1)
        self._decoder_cost = fixed or CallCost.per_call(1)
        self._measure = fixed is None

    def warm_up(self) -> str:
        """Run typical lengths; measure what batch size is cheapest unless it was given."""

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

        if self._measure:
            unit = _Unit(self._read(job_of(REFERENCE_IDS)), 0)
            self._encoder_cost = costs.measure(
                lambda b: lambda: self._encode([unit] * b),
                REFERENCE_IDS,
                store=self._store,
                graph_sha256=self._sha256["encoder"],
            )
            self._encode([unit])
            unit.counts = np.full(len(unit.ids), -(-REFERENCE_FRAMES // len(unit.ids)), np.int64)
            self._decoder_cost = costs.measure(
                lambda b: lambda: self._decode([unit] * b),
                unit.frames,
                store=self._store,
                graph_sha256=self._sha256["decoder"],
            )
            self._encoder.release_work_memory()
            self._decoder.release_work_memory()
        for ids in WARM_UP_IDS:
            self.run([job_of(min(ids, self._options.max_ids_per_segment))])
        return f"encoder batches {self._encoder_cost.batches}, decoder batches {self._decoder_cost.batches}"

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
        groups = pack([len(unit.ids) for unit in units], self._encoder_cost)
        work = [sum(len(segment) for segment in unit.utterance.segments) for unit in units]
        for group in shortest_first(groups, work):
            # a group goes all the way before the next starts, so that the first requests leave early
            self._run_group([units[index] for index in group])

    def _run_group(self, group: list[_Unit]) -> None:
        run_isolated(group, self._encode, _job)
        encoded = [unit for unit in group if not unit.utterance.job.answered]
        for indices in pack([unit.frames for unit in encoded], self._decoder_cost):
            run_isolated([encoded[index] for index in indices], self._decode, _job)
        for unit in encoded:
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
        return _Utterance(
            job=job,
            pause_ms=pause_ms,
            speaker_id=speaker_id,
            seed=int(job.scalar(tensors.SEED)),
            duration_scale=options.length_scale / speed,
            noise_scale=job.number("noise_scale", options.noise_scale, 0.0, tensors.NOISE_SCALE_MAX),
            noise_w_scale=job.number("noise_w_scale", options.noise_w_scale, 0.0, tensors.NOISE_SCALE_MAX),
            segments=[segment.astype(np.int64) for segment in segments],
        )

    def _encode(self, group: Sequence[_Unit]) -> None:
        longest = max(len(unit.ids) for unit in group)
        ids = np.zeros((len(group), longest), np.int64)
        noise = np.zeros((len(group), 2, longest), np.float32)
        for row, unit in enumerate(group):
            count = len(unit.ids)
            utterance = unit.utterance
            ids[row, :count] = unit.ids
            noise[row, :, :count] = gaussian(utterance.seed, unit.index, DURATION, (2, count))
            noise[row] *= np.float32(utterance.noise_w_scale)
        feeds: dict[str, Array] = {
            "phoneme_ids": ids,
            "lengths": np.array([len(unit.ids) for unit in group], np.int64),
            "duration_noise": noise,
        }
        if self._encoder_with_speaker:
            feeds["speaker_id"] = _speaker_ids(group)
        outputs = self._encoder.run(feeds)
        for row, unit in enumerate(group):
            count = len(unit.ids)
            unit.mean = outputs["mean"][row, :, :count].astype(np.float32, copy=False)
            unit.log_scale = outputs["log_scale"][row, :, :count].astype(np.float32, copy=False)
            durations = outputs["durations"][row, 0, :count].astype(np.float32, copy=False)
            if np.isnan(durations).any():
                raise Internal("the acoustic encoder returned durations that are not numbers")
            unit.counts = frame_counts(
                durations,
                unit.utterance.duration_scale,
                self._options.max_frames_per_id,
                self._options.max_frames_per_segment,
            )

    def _decode(self, group: Sequence[_Unit]) -> None:
        longest = max(unit.frames for unit in group)
        latents: list[FloatArray] = []
        mask = np.zeros((len(group), 1, longest), np.float32)
        for row, unit in enumerate(group):
            assert unit.mean is not None and unit.log_scale is not None and unit.counts is not None
            utterance = unit.utterance
            noise = gaussian(utterance.seed, unit.index, PRIOR, (unit.mean.shape[0], unit.frames))
            latent = sample_prior(unit.mean, unit.log_scale, unit.counts, noise, utterance.noise_scale)
            latents.append(np.pad(latent, ((0, 0), (0, longest - unit.frames))))
            mask[row, 0, : unit.frames] = 1
        feeds: dict[str, Array] = {"latent": np.stack(latents), "mask": mask}
        if self._decoder_with_speaker:
            feeds["speaker_id"] = _speaker_ids(group)
        features = self._decoder.run(feeds)["features"]
        for row, unit in enumerate(group):
            part = features[row, :, : unit.frames].T
            if not np.isfinite(part).all():
                raise Internal("the acoustic decoder returned features that are not finite numbers")
            unit.utterance.features[unit.index] = np.ascontiguousarray(part, dtype=np.float32)


def _job(unit: _Unit) -> Job:
    return unit.utterance.job


def _speaker_ids(group: Sequence[_Unit]) -> npt.NDArray[np.int64]:
    return np.array([unit.utterance.speaker_id for unit in group], np.int64)


def _outputs(utterance: _Utterance) -> dict[str, Array]:
    parts = [utterance.features[index] for index in range(len(utterance.segments))]
    return {
        "features": np.concatenate(parts)[np.newaxis],
        "frame_lengths": np.array([[len(part) for part in parts]], np.int32),
        "pause_ms": utterance.pause_ms[np.newaxis],
    }


def _raise(error: VoxrepoError) -> None:
    raise error
