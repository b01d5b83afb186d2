"""``windowed``: acoustic features to audio in fixed windows whose joins are exact."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from om_backend.audio import check_audible, silence, to_int16
from om_backend.cost_store import CostStore
from om_backend.gears import GearTable
from om_backend.job import Job, run_isolated
from om_backend.length_regulator import FloatArray
from om_backend.output_checks import Rejections
from om_backend.packing import Call, Shape, pack, shortest_first
from om_backend.pieces import Piece, read_piece, windows_of
from om_backend.programs.sized_graph import SizedGraph
from om_backend.runtime import Array, Graph
from om_backend.segments import read_segments
from om_backend.windows import Window, WindowPlanner, plan_windows
from voxrepo_contract import tensors
from voxrepo_contract.errors import Internal, InvalidArgument, VoxrepoError
from voxrepo_contract.stage import WindowedStage

KNOWN_PLANS = 256
"""Plans that are kept, by segment length: every piece of a segment asks for the same one."""


@dataclass
class _Utterance:
    """A job's checked inputs, and its audio as it comes.

    Positions of windows count from the first frame sent. ``keep_from`` is that of the first frame of ``audio``, which
    is not 0 for a piece.
    """

    job: Job
    segments: list[FloatArray]
    pause_ms: npt.NDArray[np.int32]
    plans: list[list[Window]]
    audio: list[npt.NDArray[np.int16]]
    piece: Piece | None = None
    keep_from: int = 0
    windows_left: set[tuple[int, int]] = field(default_factory=set)


@dataclass(frozen=True)
class _Unit:
    utterance: _Utterance
    segment: int
    window: Window


class WindowedProgram:
    """Features to INT16 audio; see ``WindowedOptions`` for the graph.

    All windows of all requests of a batch are pooled. The length of its segment decides how a request is cut, never
    its neighbours in the batch. A request may be for a piece of one segment (:mod:`om_backend.pieces`): it is cut as
    the whole segment is, and those of its windows are run that were asked for.

    A generator with gears gets windows of the gears' lengths (``window_frames`` is for graphs without). If it has an
    input ``mask`` FP32 [batch, 1, frames], 1 on true frames and 0 on padding, then padding behind a window equals the
    sequence's true end, and windows of all lengths share calls. Without that input nothing is ever padded.

    Args:
        stage: description of the version.
        graphs: ``generator``.
        unit_batch: windows of a call; ``None`` measures what is cheapest.
        store: keeps measured costs.
        opening: the generator's graph for windows of at most ``first_window_frames``, on which a listener waits; always
            this one for these, so that a window's audio does not depend on who asks for it. None for the same graph.

    Attributes:
        rejections: results that were not fit to be sent.
    """

    def __init__(
        self,
        stage: WindowedStage,
        graphs: Mapping[str, Graph],
        unit_batch: int | None,
        store: CostStore | None = None,
        opening: Graph | None = None,
    ) -> None:
        self._opening = opening
        interface = stage.interface
        if interface.channels is None or interface.hop_length_samples is None or interface.sample_rate_hz is None:
            raise InvalidArgument("a vocoder's interface needs channels, hop_length_samples and sample_rate_hz")
        self._options = stage.options
        self._channels = interface.channels
        self._hop = interface.hop_length_samples
        self._sample_rate_hz = interface.sample_rate_hz
        self._generator = SizedGraph(graphs["generator"], stage.graphs["generator"], "features", 2, unit_batch, store)
        self._masked = self._generator.has_input("mask")
        self._features = tensors.features(interface.channels)
        self.rejections = Rejections()
        longest = self._generator.table.longest
        if longest is not None and longest <= 2 * stage.options.overlap_frames:
            raise InvalidArgument(
                f"the longest gear of {self._generator.file} takes {longest} frames, not over twice overlap_frames "
                f"({stage.options.overlap_frames}): a window yields no audio; build it with longer gears"
            )
        self._plan_for_gears()

    def _plan_for_gears(self) -> None:
        table = self._generator.table
        self._planner: WindowPlanner | None = None
        self._by_length: dict[int, GearTable] = {}
        if isinstance(table, GearTable):
            self._planner = WindowPlanner(table.unit_seconds(), self._options.overlap_frames, may_pad=self._masked)
            self._by_length = {length: table.of_length(length) for length in table.lengths}
        options = self._options
        self._plan_of = lru_cache(KNOWN_PLANS)(
            partial(
                plan_windows,
                window=options.window_frames,
                overlap=options.overlap_frames,
                first=options.first_window_frames,
                least=options.min_frames,
            )
            if self._planner is None
            else self._planner.plan
        )

    def warm_up(self) -> str:
        """Run a short and a full window, or every gear; measure what calls cost unless the batch size was given."""
        window = self._options.window_frames

        def call_with(shape: Shape) -> Callable[[], FloatArray]:
            feeds = self._feeds([], shape)
            if self._masked:
                feeds["mask"] = np.ones_like(feeds["mask"])
            return lambda: self._run(feeds, shape)["audio"].astype(np.float32, copy=False)

        self._generator.measure(call_with, window)
        self._plan_for_gears()
        # the longest first: the memory of shorter windows lies within what it took
        shapes = [self._generator.shape(1, length) for length in reversed(self._by_length)] or [
            Shape(1, window),
            Shape(1, self._options.first_window_frames or max(window // 4, self._options.min_frames)),
        ]
        for shape in shapes:
            audio = call_with(shape)()
            frames = shape.batch * shape.length
            if audio.size != frames * self._hop:
                raise Internal(
                    f"the generator made {audio.size} samples of {frames} frames; "
                    f"hop_length_samples {self._hop} asks for {frames * self._hop}"
                )
        return f"generator {self._generator.describe()}"

    def run(self, jobs: list[Job]) -> None:
        """Answer every job; each as soon as its own windows are done."""
        units: list[_Unit] = []
        for job in jobs:
            try:
                utterance = self._read(job)
            except VoxrepoError as error:
                job.fail(error)
                continue
            for segment, plan in enumerate(utterance.plans):
                utterance.windows_left.update((segment, window.keep_start) for window in plan)
                units.extend(_Unit(utterance, segment, window) for window in plan)
        work = [sum(len(segment) for segment in unit.utterance.segments) for unit in units]
        for call in shortest_first(self._pack([unit.window.frames for unit in units]), work):
            run_isolated([units[index] for index in call.units], self._generate, lambda unit: unit.utterance.job)

    def _plan(self, frames: int) -> list[Window]:
        try:
            return self._plan_of(frames)
        except ValueError as error:
            raise InvalidArgument(
                f"frame_lengths: a segment has {frames} frames; {self._generator.file} runs windows of "
                f"{sorted(self._by_length)} frames and has no input 'mask', so a shorter segment cannot be padded "
                "without an audible end: send longer segments, or serve a version whose graph has that input "
                "('voxrepo convert' adds it)"
            ) from error

    def _pack(self, frames: Sequence[int]) -> list[Call]:
        if self._planner is not None and self._masked:
            return self._generator.pack(frames)
        # padding would be heard at a window's end, so only windows of one length share a call
        calls: list[Call] = []
        for length in sorted(set(frames)):
            same = [index for index, count in enumerate(frames) if count == length]
            table = self._by_length.get(length, self._generator.table)
            calls += [
                replace(call, units=tuple(same[index] for index in call.units))
                for call in pack([length] * len(same), table)
            ]
        return calls

    def _shape(self, group: Sequence[_Unit]) -> Shape:
        longest = max(unit.window.frames for unit in group)
        exact = None if self._masked else self._by_length.get(longest)
        shape = None if exact is None else exact.shape(len(group), longest)
        return shape or self._generator.shape(len(group), longest)

    def _generate(self, group: Sequence[_Unit]) -> None:
        shape = self._shape(group)
        audio = self._run(self._feeds(group, shape), shape)["audio"]
        if audio.size != shape.batch * shape.length * self._hop:
            raise Internal(f"the generator made {audio.size} samples of {shape.batch} x {shape.length} frames")
        samples = audio.reshape(shape.batch, -1)
        for row, unit in enumerate(group):
            if unit.utterance.job.answered:
                continue
            try:
                self._scatter(unit, samples[row].astype(np.float32, copy=False))
            except VoxrepoError as error:
                # rows do not depend on each other, so the others are sound
                unit.utterance.job.fail(error)
        for unit in group:
            if not unit.utterance.windows_left:
                self._finish(unit.utterance)

    def _run(self, feeds: Mapping[str, Array], shape: Shape) -> dict[str, Array]:
        is_opening = shape.length <= (self._options.first_window_frames or 0)
        return self._generator.run(feeds, self._opening if is_opening else None)

    def _feeds(self, group: Sequence[_Unit], shape: Shape) -> dict[str, Array]:
        features = np.zeros((shape.batch, self._channels, shape.length), np.float32)
        mask = np.zeros((shape.batch, 1, shape.length), np.float32)
        for row, unit in enumerate(group):
            window = unit.window
            features[row, :, : window.frames] = unit.utterance.segments[unit.segment][window.start : window.stop].T
            mask[row, 0, : window.frames] = 1
        return {"features": features, "mask": mask} if self._masked else {"features": features}

    def _scatter(self, unit: _Unit, samples: FloatArray) -> None:
        window = unit.window
        first = (window.keep_start - window.start) * self._hop
        kept = samples[first : first + (window.keep_stop - window.keep_start) * self._hop]
        self.rejections.check_finite(kept, self._generator.file, "samples")
        start, stop = (frame - unit.utterance.keep_from for frame in (window.keep_start, window.keep_stop))
        target = unit.utterance.audio[unit.segment][start * self._hop : stop * self._hop]
        # a lengthened segment yields more than it has room for
        target[:] = to_int16(kept[: len(target)], self._options.gain)
        unit.utterance.windows_left.discard((unit.segment, window.keep_start))

    def _finish(self, utterance: _Utterance) -> None:
        if utterance.job.answered:
            return
        parts: list[npt.NDArray[np.int16]] = []
        for audio, pause_ms in zip(utterance.audio, utterance.pause_ms, strict=True):
            parts += [audio] if utterance.piece else [audio, silence(int(pause_ms), self._sample_rate_hz)]
        audio = np.concatenate(parts)
        try:
            # a piece may well be a pause that is spoken
            if utterance.piece is None:
                check_audible(utterance.audio)
        except Internal as error:
            utterance.job.fail(self.rejections.reject("silent", self._generator.file, f"failed: {error.message}"))
            return
        utterance.job.finish({"audio": audio[np.newaxis], "sample_rate": np.array([[self._sample_rate_hz]], np.int32)})

    def _read(self, job: Job) -> _Utterance:
        segments, pause_ms = read_segments(job, self._features, tensors.FRAME_LENGTHS)
        features = [segment.astype(np.float32, copy=False) for segment in segments]
        piece = read_piece(job, [len(segment) for segment in features])
        if piece is not None:
            return self._read_piece(job, features[0], pause_ms, piece)
        audio = [np.zeros(len(segment) * self._hop, np.int16) for segment in features]
        longer = [self._lengthened(segment, len(segment)) for segment in features]
        return _Utterance(job, longer, pause_ms, [self._plan(len(segment)) for segment in longer], audio)

    def _read_piece(self, job: Job, features: FloatArray, pause_ms: npt.NDArray[np.int32], piece: Piece) -> _Utterance:
        planned_frames = max(piece.segment_frames, self._options.min_frames)
        windows = windows_of(piece, self._plan(planned_frames), planned_frames)
        if piece.stop_frame == piece.segment_frames:
            features = self._lengthened(features, piece.segment_frames)
        frames = min(windows[-1].keep_stop, piece.segment_frames) - piece.keep_from_frame
        return _Utterance(
            job=job,
            segments=[features],
            pause_ms=pause_ms,
            plans=[[window.counted_from(piece.first_frame) for window in windows]],
            audio=[np.zeros(frames * self._hop, np.int16)],
            piece=piece,
            keep_from=piece.keep_from_frame - piece.first_frame,
        )

    def _lengthened(self, features: FloatArray, segment_frames: int) -> FloatArray:
        """The frames of a segment, or its last ones, with its last frame repeated up to what the graph needs."""
        missing = self._options.min_frames - segment_frames
        return features if missing <= 0 else np.concatenate([features, np.repeat(features[-1:], missing, axis=0)])
