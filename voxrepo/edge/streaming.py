"""A voice's audio in pieces: unary engine calls to its stages, in the order in which the audio is heard.

The front end runs once, the acoustic stage once per segment, the vocoder once per group of windows. Each call is
short, so that calls of many requests take turns and a request can be dropped between two of them. The cost of a piece
does not depend on its position: features stay where the engine's answer put them, and only what is sent is copied.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from voxrepo.edge import stage_calls
from voxrepo.edge.loudness import Loudness
from voxrepo.edge.pieces_plan import WindowSizes, group_sizes, next_span, windows_in_time
from voxrepo.edge.playback import Playback
from voxrepo.edge.stage_calls import Array, Int16Array, Phonemes
from voxrepo.edge.table import VoiceEntry
from voxrepo.edge.validation import VoiceCall
from voxrepo_contract.errors import Internal
from voxrepo_contract.pieces import pause_samples

T = TypeVar("T")

SEGMENTS_AT_ONCE = 2
SEGMENTS_BEHIND = 4
"""Segments in the making of a request whose audio is wanted at once: ordinarily, and when it is behind its pace."""

StageInfer = Callable[[Any, float | None], Awaitable[Any]]
"""An engine call: takes a ``ModelInferRequest`` to a stage, and when the audio that depends on it will be wanted, on
the clock of ``time.monotonic`` (None for the call that begins a request); gives the ``ModelInferResponse`` or raises
a ``VoxrepoError`` for the client."""

WindowCost = Callable[[VoiceEntry], float]
"""Seconds of the vocoder of a row that one of its windows takes."""


@dataclass(frozen=True)
class Piece:
    """The next samples, INT16 [N]; ``is_last`` ends the utterance; ``is_opening`` if another vocoder made them."""

    samples: Int16Array
    is_last: bool
    is_opening: bool = False


class Opening:
    """Another vocoder for the first piece, a faster one. It differs from the voice in nothing else.

    A vocoder goes on only where a window of its own plan begins. Where the two cut a segment into other windows, the
    first segment is therefore made by this one to its end.

    Args:
        voice: row with that version of the vocoder.
    """

    def __init__(self, voice: VoiceEntry) -> None:
        self.voice = voice
        self._is_over = False

    def makes(self, kept: int, voice: VoiceEntry) -> bool:
        """Whether it makes what follows frame ``kept`` of a segment."""
        return not self._is_over and (kept == 0 or _window_sizes(self.voice) != _window_sizes(voice))

    def end_segment(self) -> None:
        """A segment is made; the first one is the last that it has a part in."""
        self._is_over = True


def _window_sizes(voice: VoiceEntry) -> WindowSizes:
    return WindowSizes(voice.window_frames, voice.overlap_frames, voice.first_window_frames)


class VoiceStream:
    """One request on its way through the stages.

    Args:
        call: the checked request.
        voice: the voice that it is for.
        identity: unique id of the request; calls get numbers behind it.
        infer: calls the engine.
        groups: windows per vocoder call, the last number for ever.
        playback: when audio is wanted.
        opening: for the first piece.
        window_s: part of a vocoder's time that one of its windows takes now, given its row; 0 if that is not to matter.
            Groups of windows that take long are made smaller.

    Attributes:
        dropped: characters that are not spoken, by reason; known once the first piece is there.
    """

    def __init__(
        self,
        call: VoiceCall,
        voice: VoiceEntry,
        identity: str,
        infer: StageInfer,
        groups: Sequence[int],
        playback: Playback,
        opening: Opening | None = None,
        window_s: WindowCost = lambda _: 0.0,
    ) -> None:
        self._call = call
        self._voice = voice
        self._identity = identity
        self._infer = infer
        self._parameters = call.parameters.forwarded
        self._groups = group_sizes(groups)
        self._playback = playback
        self._opening = opening
        self._window_s = window_s
        self._calls = 0
        self.dropped: dict[str, int] = {}

    def _next_id(self) -> str:
        self._calls += 1
        return f"{self._identity}.{self._calls}"

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """Make the audio, piece by piece, as far as the caller asks for the next one.

        The next segment's acoustic call runs beside this segment's vocoder calls, from the first piece on: before it,
        there is nothing to be hurried but that piece.

        Raises:
            Internal: the whole utterance is silent, or a stage broke the contract; what was made was given out before.
            VoxrepoError: from a call.
        """
        phonemes = await self._phonemes()
        loudness = Loudness()
        count = len(phonemes.segments)
        following: asyncio.Task[Array] | None = self._start_acoustic(phonemes, 0)
        try:
            for segment in range(count):
                assert following is not None
                features, following = await following, None
                pause = self._pause(phonemes, segment)
                kept = 0
                while kept < len(features):
                    if following is None and segment + 1 < count and self._playback.has_begun:
                        left = len(features) - kept
                        following = self._start_acoustic(phonemes, segment + 1, self._seconds(left, pause))
                    voice = self._vocoder(kept)
                    samples = await self._vocode(features, kept, voice)
                    kept += len(samples) // self._voice.hop_length_samples
                    loudness.add(samples)
                    ends = kept == len(features)
                    if ends:
                        loudness.end_segment()
                        if self._opening is not None:
                            self._opening.end_segment()
                        samples = np.concatenate((samples, np.zeros(pause, np.int16))) if pause else samples
                    is_last = ends and segment + 1 == count
                    if is_last:
                        self._refuse_silence(loudness)
                    self._playback.add(len(samples) / self._voice.sample_rate_hz)
                    if ends and following is None and not is_last:
                        following = self._start_acoustic(phonemes, segment + 1)
                    yield Piece(samples, is_last, is_opening=voice is not self._voice)
        finally:
            if following is not None:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

    async def whole(self) -> Int16Array:
        """Make the audio for a caller who wants all of it at once, INT16 [N]; the samples are those of :meth:`pieces`.

        Two segments are in the making, so that the next one's acoustic call runs beside this one's vocoder calls;
        more of them while the request is behind its pace. Each has one call at a time in the engine, so that this is
        what the request's share beside other busy clients grows with.

        Raises:
            Internal: it is silent, or a stage broke the contract.
            VoxrepoError: from a call.
        """
        phonemes = await self._phonemes()
        loudness = Loudness()
        parts: list[Int16Array] = []
        begun = 0
        making: deque[asyncio.Task[list[Int16Array]]] = deque()
        try:
            while begun < len(phonemes.segments) or making:
                most = SEGMENTS_BEHIND if self._playback.is_behind else SEGMENTS_AT_ONCE
                while begun < len(phonemes.segments) and len(making) < most:
                    making.append(asyncio.create_task(self._segment(phonemes, begun)))
                    begun += 1
                made = await making[0]
                making.popleft()
                for samples in made:
                    loudness.add(samples)
                loudness.end_segment()
                made.append(np.zeros(self._pause(phonemes, begun - len(making) - 1), np.int16))
                self._playback.add(sum(map(len, made)) / self._voice.sample_rate_hz)
                parts += made
        finally:
            for task in making:
                task.cancel()
            await asyncio.gather(*making, return_exceptions=True)
        self._refuse_silence(loudness)
        return np.concatenate(parts)

    async def _segment(self, phonemes: Phonemes, segment: int) -> list[Int16Array]:
        features = await self._acoustic(phonemes, segment, self._playback.needed_by_s())
        made: list[Int16Array] = []
        kept = 0
        while kept < len(features):
            made.append(await self._vocode(features, kept, self._voice))
            kept += len(made[-1]) // self._voice.hop_length_samples
        return made

    async def _phonemes(self) -> Phonemes:
        request = stage_calls.front_end_request(self._call.request, self._voice, self._next_id())
        phonemes = stage_calls.read_phonemes(await self._infer(request, None))
        self.dropped = phonemes.dropped
        return phonemes

    def _refuse_silence(self, loudness: Loudness) -> None:
        if loudness.is_silent:
            raise Internal(f"the vocoder of {self._voice.name} returned silence ({loudness})")

    def _pause(self, phonemes: Phonemes, segment: int) -> int:
        return pause_samples(phonemes.pause_ms[segment], self._voice.sample_rate_hz)

    def _seconds(self, frames: int, samples: int = 0) -> float:
        return (frames * self._voice.hop_length_samples + samples) / self._voice.sample_rate_hz

    def _start_acoustic(self, phonemes: Phonemes, segment: int, ahead_s: float = 0.0) -> asyncio.Task[Array]:
        """Begin a segment; ``ahead_s`` seconds of audio are still to be made before it."""
        needed_by_s = self._playback.needed_by_s(ahead_s)
        return asyncio.create_task(self._acoustic(phonemes, segment, needed_by_s))

    async def _acoustic(self, phonemes: Phonemes, segment: int, needed_by_s: float) -> Array:
        request = stage_calls.acoustic_request(phonemes, segment, self._voice, self._next_id(), self._parameters)
        return stage_calls.read_features(await self._infer(request, needed_by_s), self._voice)

    def _vocoder(self, kept: int) -> VoiceEntry:
        """The row whose vocoder makes what follows frame ``kept`` of a segment."""
        opening = self._opening
        return opening.voice if opening is not None and opening.makes(kept, self._voice) else self._voice

    async def _vocode(self, features: Array, kept: int, voice: VoiceEntry) -> Int16Array:
        windows = windows_in_time(next(self._groups), self._window_s(voice))
        span = next_span(len(features), kept, windows, _window_sizes(voice))
        request = stage_calls.vocoder_request(features, span, kept, voice, self._next_id(), self._parameters)
        response = await self._infer(request, self._playback.needed_by_s())
        return stage_calls.read_audio(response, len(features) - kept, voice)


async def one_ahead(source: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """Items of ``source``, the next one in the making while the caller deals with the last.

    Never more than that one: a caller who takes his time stops the source. An error in the making is raised where its
    item would have been. ``source`` is closed with this generator.
    """

    async def advance() -> tuple[T] | None:
        try:
            return (await source.__anext__(),)
        except StopAsyncIteration:
            return None

    making = asyncio.create_task(advance())
    try:
        while made := await making:
            making = asyncio.create_task(advance())
            yield made[0]
    finally:
        making.cancel()
        await asyncio.gather(making, return_exceptions=True)
        await source.aclose()
