"""A voice of a server, blocking and for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType

from voxrepo_client.address import Address, parse_address
from voxrepo_client.errors import ServerBusy, VoiceNotFound
from voxrepo_client.protocol import build_call, check_timeout_s, parse_answer
from voxrepo_client.speech import Speech
from voxrepo_client.streaming import AsyncSpeechStream, SpeechStream
from voxrepo_client.transport import AsyncTransport, Transport, check_headers, open_async_transport, open_transport
from voxrepo_client.voice_info import VoiceInfo, is_voice, ready_names, voice_info


class Voice:
    """A voice of a server, for blocking code.

    One object is one connection (gRPC; a second one where it streams) or one pool of connections (HTTP), made with the
    first call. Any number of threads may use it at once. A server that runs several worker processes gives each
    connection to one of them: for much parallel work over gRPC make several objects.

    Args:
        name: name of the voice, e.g. ``en-joe``.
        url: see :func:`~voxrepo_client.address.parse_address`.
        timeout_s: limit for every call that does not bring its own, ``None`` for no limit.
        headers: sent with every call (gRPC metadata), e.g. for a proxy that wants a key.

    Raises:
        InvalidRequest: an argument cannot be used.
    """

    def __init__(
        self,
        name: str,
        url: str | None = None,
        *,
        timeout_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.address: Address = parse_address(url)
        self._timeout_s = check_timeout_s(timeout_s)
        self._transport: Transport = open_transport(self.address, check_headers(headers))

    def synthesize(
        self,
        text: str,
        *,
        speed: float = 1.0,
        speaker: str | None = None,
        seed: int | None = None,
        noise_scale: float | None = None,
        noise_w_scale: float | None = None,
        normalise: bool | None = None,
        timeout_s: float | None = None,
    ) -> Speech:
        """Speak ``text``.

        Args:
            text: 1 to the voice's ``max_text_chars`` characters; for more see
                :func:`~voxrepo_client.longtext.synthesize_long`.
            speed: 0.25 to 4.0; 2 is twice as fast.
            speaker: name from the voice's list, by default its first.
            seed: 64-bit integer; same seed, text and versions give the same audio. Drawn by the server by default.
            noise_scale: 0 to 2, variation of the sound; the voice's own value by default.
            noise_w_scale: 0 to 2, variation of the rhythm; the voice's own value by default.
            normalise: ``False`` has the text read as written: no rules for numbers, dates, addresses or markup.
            timeout_s: limit for this call, in place of the client's.

        Raises:
            VoxrepoClientError: see :mod:`voxrepo_client.errors`.
        """
        call = build_call(
            self.name,
            text,
            speed=speed,
            speaker=speaker,
            seed=seed,
            noise_scale=noise_scale,
            noise_w_scale=noise_w_scale,
            normalise=normalise,
        )
        return parse_answer(self._transport.infer(call, check_timeout_s(timeout_s) or self._timeout_s))

    def stream(
        self,
        text: str,
        *,
        speed: float = 1.0,
        speaker: str | None = None,
        seed: int | None = None,
        noise_scale: float | None = None,
        noise_w_scale: float | None = None,
        normalise: bool | None = None,
        timeout_s: float | None = None,
    ) -> SpeechStream:
        """Speak ``text`` in pieces that come as they are made; joined they are what :meth:`synthesize` returns.

            with voice.stream("A long story.") as stream:
                for piece in stream:  # int16 [N]
                    play(piece, stream.sample_rate_hz)

        The request is sent when the first piece is asked for. Any number of streams may be open at once; each is read
        by one thread. Leaving early ends the request at the server.

        Args:
            text: as of :meth:`synthesize`, like all that follow; for more see
                :func:`~voxrepo_client.longtext.stream_long`.
            speed: as above.
            speaker: as above.
            seed: as above.
            noise_scale: as above.
            noise_w_scale: as above.
            normalise: as above.
            timeout_s: limit for the whole stream, the time that the caller takes between pieces included.

        Raises:
            InvalidRequest: an argument cannot be sent. Everything else is raised by the iteration:
                :class:`StreamingNotOffered` where the server has the voice but does not stream it, otherwise the
                errors of :meth:`synthesize`.
        """
        call = build_call(
            self.name,
            text,
            speed=speed,
            speaker=speaker,
            seed=seed,
            noise_scale=noise_scale,
            noise_w_scale=noise_w_scale,
            normalise=normalise,
        )
        return SpeechStream(self._transport, call, check_timeout_s(timeout_s) or self._timeout_s)

    def info(self, timeout_s: float | None = None) -> VoiceInfo:
        """What the server says about the voice.

        Raises:
            VoiceNotFound: no such model, or the model is no voice.
            VoxrepoClientError: see :mod:`voxrepo_client.errors`.
        """
        limit_s = check_timeout_s(timeout_s) or self._timeout_s
        metadata = self._transport.metadata(self.name, limit_s)
        config = self._transport.config(self.name, limit_s)
        if not is_voice(metadata, config):
            raise VoiceNotFound(f"the model {self.name!r} at {self.address} is not a voice")
        return voice_info(self.name, config)

    def close(self) -> None:
        """Free the connections; calls in flight end with an error. Closing twice is harmless."""
        self._transport.close()

    def __enter__(self) -> Voice:
        """Nothing but ``self``; the connection is made with the first call."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


class AsyncVoice:
    """A voice of a server, for asyncio: :class:`Voice` with ``await``.

    Any number of tasks of one event loop may use it at once. Cancelling a task cancels its request at the server.
    """

    def __init__(
        self,
        name: str,
        url: str | None = None,
        *,
        timeout_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.address: Address = parse_address(url)
        self._timeout_s = check_timeout_s(timeout_s)
        self._transport: AsyncTransport = open_async_transport(self.address, check_headers(headers))

    async def synthesize(
        self,
        text: str,
        *,
        speed: float = 1.0,
        speaker: str | None = None,
        seed: int | None = None,
        noise_scale: float | None = None,
        noise_w_scale: float | None = None,
        normalise: bool | None = None,
        timeout_s: float | None = None,
    ) -> Speech:
        """Speak ``text``; arguments and errors as of :meth:`Voice.synthesize`."""
        call = build_call(
            self.name,
            text,
            speed=speed,
            speaker=speaker,
            seed=seed,
            noise_scale=noise_scale,
            noise_w_scale=noise_w_scale,
            normalise=normalise,
        )
        return parse_answer(await self._transport.infer(call, check_timeout_s(timeout_s) or self._timeout_s))

    def stream(
        self,
        text: str,
        *,
        speed: float = 1.0,
        speaker: str | None = None,
        seed: int | None = None,
        noise_scale: float | None = None,
        noise_w_scale: float | None = None,
        normalise: bool | None = None,
        timeout_s: float | None = None,
    ) -> AsyncSpeechStream:
        """Speak ``text`` in pieces that come as they are made; arguments and errors as of :meth:`Voice.stream`.

            async with voice.stream("A long story.") as stream:
                async for piece in stream:  # int16 [N]
                    await play(piece, stream.sample_rate_hz)

        Call it, and read the stream, on the voice's event loop.
        """
        call = build_call(
            self.name,
            text,
            speed=speed,
            speaker=speaker,
            seed=seed,
            noise_scale=noise_scale,
            noise_w_scale=noise_w_scale,
            normalise=normalise,
        )
        return AsyncSpeechStream(self._transport, call, check_timeout_s(timeout_s) or self._timeout_s)

    async def info(self, timeout_s: float | None = None) -> VoiceInfo:
        """What the server says about the voice; errors as of :meth:`Voice.info`."""
        limit_s = check_timeout_s(timeout_s) or self._timeout_s
        metadata = await self._transport.metadata(self.name, limit_s)
        config = await self._transport.config(self.name, limit_s)
        if not is_voice(metadata, config):
            raise VoiceNotFound(f"the model {self.name!r} at {self.address} is not a voice")
        return voice_info(self.name, config)

    async def close(self) -> None:
        """Free the connections; calls in flight end with an error. Closing twice is harmless."""
        await self._transport.close()

    async def __aenter__(self) -> AsyncVoice:
        """Nothing but ``self``; the connection is made with the first call."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()


def list_voices(
    url: str | None = None, *, timeout_s: float | None = None, headers: Mapping[str, str] | None = None
) -> list[VoiceInfo]:
    """The voices of a server that are ready, by name.

    Args:
        url: see :func:`~voxrepo_client.address.parse_address`.
        timeout_s: limit for each of the calls this takes: one for the server and two per ready model.
        headers: sent with every call.

    Raises:
        VoxrepoClientError: see :mod:`voxrepo_client.errors`.
    """
    limit_s = check_timeout_s(timeout_s)
    transport = open_transport(parse_address(url), check_headers(headers))
    try:
        voices: list[VoiceInfo] = []
        for name in ready_names(transport.index(limit_s)):
            try:
                metadata, config = transport.metadata(name, limit_s), transport.config(name, limit_s)
            except (VoiceNotFound, ServerBusy):
                continue  # unloaded since the index was read
            if is_voice(metadata, config):
                voices.append(voice_info(name, config))
        return voices
    finally:
        transport.close()


async def list_voices_async(
    url: str | None = None, *, timeout_s: float | None = None, headers: Mapping[str, str] | None = None
) -> list[VoiceInfo]:
    """:func:`list_voices` for asyncio; asks for all models at once."""
    limit_s = check_timeout_s(timeout_s)
    transport = open_async_transport(parse_address(url), check_headers(headers))

    async def look(name: str) -> VoiceInfo | None:
        try:
            metadata = await transport.metadata(name, limit_s)
            config = await transport.config(name, limit_s)
        except (VoiceNotFound, ServerBusy):
            return None  # unloaded since the index was read
        return voice_info(name, config) if is_voice(metadata, config) else None

    try:
        found = await asyncio.gather(*(look(name) for name in ready_names(await transport.index(limit_s))))
        return [voice for voice in found if voice is not None]
    finally:
        await transport.close()
