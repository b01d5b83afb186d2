"""``windowed``: acoustic features to audio in fixed windows whose joins are exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from om_backend import costs
from om_backend.cost_store import CostStore
from om_backend.audio import check_audible, silence, to_int16
from om_backend.job import Job, run_isolated
from om_backend.length_regulator import FloatArray
from om_backend.packing import CallCost, pack, shortest_first
from om_backend.runtime import Graph
from om_backend.segments import read_segments
from om_backend.windows import Window, plan_windows
from voxrepo_contract import tensors
from voxrepo_contract.errors import Internal, InvalidArgument, VoxrepoError
from voxrepo_contract.stage import WindowedStage


@dataclass
class _Utterance:
    job: Job
    segments: list[FloatArray]
    pause_ms: npt.NDArray[np.int32]
    audio: list[npt.NDArray[np.int16]]
    windows_left: set[tuple[int, int]] = field(default_factory=set)


@dataclass(frozen=True)
class _Unit:
    utterance: _Utterance
    segment: int
    window: Window


class WindowedProgram:
    """Features to INT16 audio; see ``WindowedOptions`` for the graph.

    All windows of all requests of a batch are pooled. The position of a window within its segment decides its
    shape, never its neighbours in the batch.
    """

    def __init__(
        self,
        stage: WindowedStage,
        graphs: Mapping[str, Graph],
        unit_batch: int | None,
        store: CostStore | None = None,
    ) -> None:
        interface = stage.interface
        if interface.channels is None or interface.hop_length_samples is None or interface.sample_rate_hz is None:
            raise InvalidArgument("a vocoder's interface needs channels, hop_length_samples and sample_rate_hz")
        self._options = stage.options
        self._channels = interface.channels
        self._hop = interface.hop_length_samples
        self._sample_rate_hz = interface.sample_rate_hz
        self._generator = graphs["generator"]
        self._features = tensors.features(interface.channels)
        self._cost = CallCost.per_call(unit_batch or 1)
        self._measure = unit_batch is None
        self._store = store or CostStore()
        self._sha256 = stage.graphs["generator"].sha256

    def warm_up(self) -> str:
        """Run a short and a full window; measure what batch size is cheapest unless it was given."""
        window = self._options.window_frames

        def call_with(batch: int, frames: int = window) -> FloatArray:
            feed = np.zeros((batch, self._channels, frames), np.float32)
            return self._generator.run({"features": feed})["audio"].astype(np.float32, copy=False)

        if self._measure:
            self._cost = costs.measure(
                lambda b: lambda: call_with(b), window, store=self._store, graph_sha256=self._sha256
            )
            self._generator.release_work_memory()
        # the longest first: the memory of shorter windows lies within what it took
        for frames in (window, window // 4 or 1):
            audio = call_with(1, frames)
            if audio.size != frames * self._hop:
                raise Internal(
                    f"the generator made {audio.size} samples of {frames} frames; "
                    f"hop_length_samples {self._hop} asks for {frames * self._hop}"
                )
        return f"generator batches {self._cost.batches}"

    def run(self, jobs: list[Job]) -> None:
        """Answer every job; each as soon as its own windows are done."""
        units: list[_Unit] = []
        for job in jobs:
            try:
                utterance = self._read(job)
            except VoxrepoError as error:
                job.fail(error)
                continue
            for segment, features in enumerate(utterance.segments):
                plan = plan_windows(len(features), self._options.window_frames, self._options.overlap_frames)
                utterance.windows_left.update((segment, window.start) for window in plan)
                units.extend(_Unit(utterance, segment, window) for window in plan)
        # padding would be heard at a window's end, so only windows of one length share a call
        lengths = sorted({unit.window.frames for unit in units})
        groups = []
        for length in lengths:
            same = [index for index, unit in enumerate(units) if unit.window.frames == length]
            groups += [[same[i] for i in group] for group in pack([length] * len(same), self._cost)]
        work = [sum(len(segment) for segment in unit.utterance.segments) for unit in units]
        for group in shortest_first(groups, work):
            run_isolated([units[index] for index in group], self._generate, lambda unit: unit.utterance.job)

    def _generate(self, group: Sequence[_Unit]) -> None:
        feed = np.stack([u.utterance.segments[u.segment][u.window.start : u.window.stop].T for u in group])
        audio = self._generator.run({"features": feed})["audio"].reshape(len(group), -1)
        for row, unit in enumerate(group):
            self._scatter(unit, audio[row].astype(np.float32, copy=False))
        for unit in group:
            if not unit.utterance.windows_left:
                self._finish(unit.utterance)

    def _scatter(self, unit: _Unit, samples: FloatArray) -> None:
        window = unit.window
        if len(samples) != window.frames * self._hop:
            raise Internal(f"the generator made {len(samples)} samples of {window.frames} frames")
        first = (window.keep_start - window.start) * self._hop
        kept = samples[first : first + (window.keep_stop - window.keep_start) * self._hop]
        target = unit.utterance.audio[unit.segment]
        target[window.keep_start * self._hop : window.keep_stop * self._hop] = to_int16(kept, self._options.gain)
        unit.utterance.windows_left.discard((unit.segment, window.start))

    def _finish(self, utterance: _Utterance) -> None:
        if utterance.job.answered:
            return
        parts: list[npt.NDArray[np.int16]] = []
        for audio, pause_ms in zip(utterance.audio, utterance.pause_ms, strict=True):
            parts += [audio, silence(int(pause_ms), self._sample_rate_hz)]
        audio = np.concatenate(parts)
        try:
            check_audible(audio)
        except VoxrepoError as error:
            utterance.job.fail(error)
            return
        utterance.job.finish({"audio": audio[np.newaxis], "sample_rate": np.array([[self._sample_rate_hz]], np.int32)})

    def _read(self, job: Job) -> _Utterance:
        segments, pause_ms = read_segments(job, self._features, tensors.FRAME_LENGTHS)
        features = [segment.astype(np.float32, copy=False) for segment in segments]
        audio = [np.zeros(len(segment) * self._hop, np.int16) for segment in features]
        return _Utterance(job, features, pause_ms, audio)
