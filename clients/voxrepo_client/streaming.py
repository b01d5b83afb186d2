"""A stream of speech: the pieces in order as they are made, and what is known about them.

The request goes to model ``<voice>.stream`` when the first piece is asked for. A caller that reads slowly slows the
server down: nothing is read ahead beyond what the transport buffers.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from types import TracebackType

import numpy as np
import numpy.typing as npt

from voxrepo_client.errors import BadResponse, ClientClosed, StreamingNotOffered, VoiceNotFound, VoxrepoClientError
from voxrepo_client.protocol import InferAnswer, InferCall, parse_answer
from voxrepo_client.speech import Speech
from voxrepo_client.timing import StreamTiming
from voxrepo_client.transport import AnswerStream, AsyncAnswerStream, AsyncTransport, Transport

STREAM_SUFFIX = ".stream"

Piece = npt.NDArray[np.int16]


class _Progress:
    """What has come so far, and how it ends."""

    _answers: AnswerStream | AsyncAnswerStream

    def __init__(self, voice: str) -> None:
        self._voice = voice
        self._is_closed = False
        # nothing to end yet: the subclass says so when it has its answers
        self._is_over = True
        self._start_s: float | None = None
        self._first: Speech | None = None
        self._pieces: list[Piece] = []
        self._arrivals_s: list[float] = []

    @property
    def sample_rate_hz(self) -> int | None:
        """Of the pieces; ``None`` before the first."""
        return None if self._first is None else self._first.sample_rate_hz

    @property
    def seed(self) -> int | None:
        """What the server drew or was given; ``None`` before the first piece."""
        return None if self._first is None else self._first.seed

    @property
    def versions(self) -> dict[str, int]:
        """Version of each stage that speaks; empty before the first piece."""
        return {} if self._first is None else dict(self._first.versions)

    @property
    def dropped(self) -> dict[str, int]:
        """Characters of the text that are not spoken, by reason; empty before the first piece."""
        return {} if self._first is None else dict(self._first.dropped)

    @property
    def received(self) -> Speech | None:
        """All pieces so far as one; ``None`` before the first."""
        if self._first is None:
            return None
        return replace(self._first, samples=np.concatenate(self._pieces))

    @property
    def timing(self) -> StreamTiming:
        """When the pieces so far came."""
        rate_hz = self.sample_rate_hz or 1
        return StreamTiming(tuple(self._arrivals_s), tuple(len(piece) / rate_hz for piece in self._pieces))

    def _begin(self) -> None:
        if self._start_s is None:
            self._start_s = time.perf_counter()

    def _accept(self, answer: InferAnswer) -> Piece | None:
        # an answer without audio only tells that there is no more
        audio = answer.outputs.get("audio")
        if self._first is not None and (audio is None or not audio.size):
            return None
        speech = parse_answer(answer)
        if not len(speech.samples):
            return None
        if self._first is None:
            self._first = replace(speech, samples=speech.samples[:0])
        elif speech.sample_rate_hz != self._first.sample_rate_hz:
            raise BadResponse(
                f"the sample rate changed within the stream, from {self._first.sample_rate_hz} Hz "
                f"to {speech.sample_rate_hz} Hz"
            )
        self._arrivals_s.append(time.perf_counter() - (self._start_s or 0.0))
        self._pieces.append(speech.samples)
        # a copy: what the caller does to it leaves what was received alone
        return speech.samples.copy()

    def _check_end(self) -> None:
        if self._first is None:
            raise BadResponse("the stream ended without any audio")

    def _failed(self, error: VoxrepoClientError) -> VoxrepoClientError:
        error.received = self.received
        return error

    def _collected(self) -> Speech:
        received = self.received
        if received is None or self._is_closed:
            raise self._failed(ClientClosed("the stream was closed before its end"))
        return received

    def _end(self) -> None:
        self._is_over = True
        self._answers.cancel()

    def close(self) -> None:
        """End the request at the server; harmless after the end. A blocking stream may be closed by another thread."""
        if not self._is_over:
            self._is_closed = True
            self._end()

    def __del__(self) -> None:
        """Close what nobody will read."""
        if not getattr(self, "_is_over", True):
            self.close()


def _is_missing(error: VoxrepoClientError) -> bool:
    # no such model, or a server without ModelStreamInfer
    return isinstance(error, VoiceNotFound) or error.code in ("UNIMPLEMENTED", "501")


def _not_offered(voice: str) -> StreamingNotOffered:
    return StreamingNotOffered(f"the server speaks with the voice {voice!r} but does not stream it; use synthesize()")


class SpeechStream(_Progress, Iterator[Piece]):
    """The pieces of one text, for blocking code: an iterator over int16 arrays [N], and a context manager.

    One thread reads it. ``close()`` ends the request at the server, and so does dropping the last reference, e.g. by
    leaving a ``for`` loop early. An error after the first piece carries what came before as ``error.received``.
    """

    _answers: AnswerStream

    def __init__(self, transport: Transport, call: InferCall, timeout_s: float | None) -> None:
        super().__init__(call.model)
        self._transport = transport
        self._timeout_s = timeout_s
        self._answers = transport.stream(replace(call, model=call.model + STREAM_SUFFIX), timeout_s)
        self._is_over = False

    def __next__(self) -> Piece:
        """The next piece.

        Raises:
            VoxrepoClientError: see :mod:`voxrepo_client.errors`.
        """
        if self._is_over:
            raise StopIteration
        self._begin()
        try:
            while (answer := self._answers.read()) is not None:
                piece = self._accept(answer)
                if piece is not None:
                    return piece
            self._check_end()
        except VoxrepoClientError as error:
            closed_meanwhile = self._is_closed
            self._end()
            if closed_meanwhile:
                raise self._failed(ClientClosed("the stream was closed while a piece was awaited")) from error
            if self._first is None and _is_missing(error):
                self._explain(error)
            raise self._failed(error) from error.__cause__
        except BaseException:
            self._end()
            raise
        self._is_over = True
        raise StopIteration

    def _explain(self, missing: VoxrepoClientError) -> None:
        try:
            self._transport.metadata(self._voice, self._timeout_s)
        except VoiceNotFound as error:
            raise error from missing
        except VoxrepoClientError:
            raise missing from missing.__cause__
        raise _not_offered(self._voice) from missing

    def collect(self) -> Speech:
        """Wait for the rest and return all pieces as one, those already handed out included.

        Raises:
            ClientClosed: the stream was closed before its end.
            VoxrepoClientError: see :mod:`voxrepo_client.errors`.
        """
        deque(self, maxlen=0)
        return self._collected()

    def __enter__(self) -> SpeechStream:
        """Nothing but ``self``."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


class AsyncSpeechStream(_Progress, AsyncIterator[Piece]):
    """:class:`SpeechStream` for asyncio: an asynchronous iterator and context manager; read by one task."""

    _answers: AsyncAnswerStream

    def __init__(self, transport: AsyncTransport, call: InferCall, timeout_s: float | None) -> None:
        super().__init__(call.model)
        self._transport = transport
        self._timeout_s = timeout_s
        self._answers = transport.stream(replace(call, model=call.model + STREAM_SUFFIX), timeout_s)
        self._is_over = False

    async def __anext__(self) -> Piece:
        """The next piece; errors as of :meth:`SpeechStream.__next__`."""
        if self._is_over:
            raise StopAsyncIteration
        self._begin()
        try:
            while (answer := await self._answers.read()) is not None:
                piece = self._accept(answer)
                if piece is not None:
                    return piece
            self._check_end()
        except VoxrepoClientError as error:
            closed_meanwhile = self._is_closed
            self._end()
            if closed_meanwhile:
                raise self._failed(ClientClosed("the stream was closed while a piece was awaited")) from error
            if self._first is None and _is_missing(error):
                await self._explain(error)
            raise self._failed(error) from error.__cause__
        except BaseException:  # a cancelled task among them
            self._end()
            raise
        self._is_over = True
        raise StopAsyncIteration

    async def _explain(self, missing: VoxrepoClientError) -> None:
        try:
            await self._transport.metadata(self._voice, self._timeout_s)
        except VoiceNotFound as error:
            raise error from missing
        except VoxrepoClientError:
            raise missing from missing.__cause__
        raise _not_offered(self._voice) from missing

    async def collect(self) -> Speech:
        """Wait for the rest and return all pieces as one; as :meth:`SpeechStream.collect`."""
        async for _ in self:
            pass
        return self._collected()

    async def __aenter__(self) -> AsyncSpeechStream:
        """Nothing but ``self``."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()
