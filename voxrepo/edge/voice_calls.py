"""How voices answer: short texts by one call of their ensemble, streams and long texts by calls of their stages."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import Any, Protocol

import numpy as np
from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge.admission import Admission
from voxrepo.edge.costs import Costs
from voxrepo.edge.dropped import take_dropped
from voxrepo.edge.engine_client import CallerTimedOut, EngineCallFailed, ModelReloaded
from voxrepo.edge.engine_errors import is_passing
from voxrepo.edge.holding import Holding
from voxrepo.edge.parameters import STABLE_ARM
from voxrepo.edge.pieces_plan import JOINED_GROUPS, STREAM_GROUPS
from voxrepo.edge.playback import Playback
from voxrepo.edge.stage_calls import Int16Array
from voxrepo.edge.streaming import VoiceStream, one_ahead
from voxrepo.edge.table import VoiceEntry
from voxrepo.edge.validation import VOICE_VERSION, VoiceCall, check_voice_request
from voxrepo.metrics.accounting import RequestRecord
from voxrepo_contract.errors import VoxrepoError
from voxrepo_contract.names import STREAM_SUFFIX, stage_model_name
from voxrepo_contract.tensors import AUDIO, SAMPLE_RATE

LONG_TEXT_CHARS = 300
"""A text of more characters is made by calls of the stages also where one answer is wanted. About 20 seconds of speech:
in one call it would hold a place in the engine for a second, and could not be dropped on the way."""

JOINED_PACE = 4.0
"""Seconds of audio a second that a long text claims of the engine, beside streams, which claim one."""

Refusal = Callable[[EngineCallFailed, str, str, VoiceEntry, str], VoxrepoError]


class Engine(Protocol):
    """The part of :class:`~voxrepo.edge.engine_client.EngineClient` that is used here."""

    costs: Costs

    async def infer(self, request: Any, deadline_s: float | None, *, needed_by_s: float | None = None) -> Any:
        """Call ``ModelInfer``."""


class VoiceCalls:
    """Inference with voices.

    Args:
        engine: client of the engine.
        holding: where requests wait for a voice in recovery.
        refusal: the client's error for a failed call: failure, model, version, voice, request id.
        admission: who is let in; None for everybody.
        long_text_chars: longest text that the ensemble gets.
    """

    def __init__(
        self,
        engine: Engine,
        holding: Holding,
        refusal: Refusal,
        admission: Admission | None = None,
        long_text_chars: int = LONG_TEXT_CHARS,
    ) -> None:
        self._engine = engine
        self._holding = holding
        self._refusal = refusal
        self._admission = admission
        self._long_text_chars = long_text_chars

    async def infer(self, request: Any, voice: VoiceEntry, record: RequestRecord) -> Any:
        """One answer with all the audio; see :meth:`voxrepo.edge.dataplane.DataPlane.infer`."""
        call = _checked(request, voice, record)
        if len(call.text) > self._long_text_chars:
            if self._admission is not None:
                self._admission.check_long(voice.name, len(call.text), record.remaining_s())
            return await self._joined(call, request.id, voice, record)
        if self._admission is not None:
            self._admission.check(voice.name, len(call.text), record.remaining_s())
        response = await self._call(call.request, None, voice, record)
        response.id = request.id
        # ensembles add sequence parameters that mean nothing here
        response.parameters.clear()
        record.dropped = take_dropped(response)
        _tell(response, call, voice, record.dropped)
        for output in response.outputs:
            if output.name == AUDIO.name:
                record.audio_s = output.shape[-1] / voice.sample_rate_hz
        return response

    def _let_in_stream(self, call: VoiceCall, voice: VoiceEntry, record: RequestRecord) -> AbstractContextManager[None]:
        if self._admission is None:
            return nullcontext()
        return self._admission.stream(voice.name, len(call.text), record.remaining_s())

    async def _joined(self, call: VoiceCall, client_id: str, voice: VoiceEntry, record: RequestRecord) -> Any:
        # as if it were played, fast, from the start: streams with audio in hand wait for it, those without do not
        playback = Playback(record.started_s, begins_s=record.started_s, pace=JOINED_PACE)
        stream = self._stream(call, voice, record, JOINED_GROUPS, playback)
        samples = await stream.whole()
        record.dropped = stream.dropped
        record.audio_s = len(samples) / voice.sample_rate_hz
        response = _response(samples, voice.name, client_id, call, voice)
        _tell(response, call, voice, stream.dropped)
        return response

    async def stream(
        self, request: Any, voice: VoiceEntry, record: RequestRecord
    ) -> AsyncGenerator[tuple[Any, bool], None]:
        """The audio in pieces; see :meth:`voxrepo.edge.dataplane.DataPlane.stream`."""
        call = _checked(request, voice, record)
        vocoder = stage_model_name(voice.name, "vocoder")
        playback = Playback(record.started_s)

        def window_s() -> float:
            return self._engine.costs.predict(vocoder, voice.window_frames)

        stream = self._stream(call, voice, record, STREAM_GROUPS, playback, window_s)
        with self._let_in_stream(call, voice, record):
            async with aclosing(one_ahead(stream.pieces())) as pieces:
                async for piece in pieces:
                    response = _response(piece.samples, voice.name + STREAM_SUFFIX, request.id, call, voice)
                    record.dropped = stream.dropped
                    _tell(response, call, voice, stream.dropped)
                    record.piece(len(piece.samples) / voice.sample_rate_hz)
                    yield response, piece.is_last

    def _stream(
        self,
        call: VoiceCall,
        voice: VoiceEntry,
        record: RequestRecord,
        groups: Sequence[int],
        playback: Playback,
        window_s: Callable[[], float] = lambda: 0.0,
    ) -> VoiceStream:
        async def infer(stage_request: Any, needed_by_s: float | None) -> Any:
            return await self._call(stage_request, needed_by_s, voice, record)

        return VoiceStream(call, voice, record.id, infer, groups, playback, window_s)

    async def _call(self, request: Any, needed_by_s: float | None, voice: VoiceEntry, record: RequestRecord) -> Any:
        """An engine call, repeated once if it met a fault that the supervisor cures.

        Also in a stream that has given out audio, which then has a gap: calls have no side effects, and the same
        versions give the same samples.
        """
        await self._holding.pass_when_free(voice.name, record)
        try:
            return await self._once(request, needed_by_s, record)
        except EngineCallFailed as failure:
            error = self._refusal(failure, request.model_name, request.model_version, voice, record.id)
            if not is_passing(failure.code, failure.text, failure.from_engine, self._is_held(voice)):
                raise error from failure
            is_cured = isinstance(failure, ModelReloaded)
        if is_cured:
            await self._holding.pass_when_free(voice.name, record)
        else:
            await self._holding.pass_after_failure(voice.name, record)
        try:
            return await self._once(request, needed_by_s, record)
        except EngineCallFailed as failure:
            raise self._refusal(failure, request.model_name, request.model_version, voice, record.id) from failure

    def _is_held(self, voice: VoiceEntry) -> bool:
        return self._holding.is_held(voice.name)

    async def _once(self, request: Any, needed_by_s: float | None, record: RequestRecord) -> Any:
        try:
            return await self._engine.infer(request, record.deadline_s, needed_by_s=needed_by_s)
        except CallerTimedOut:
            raise record.deadline_error() from None


def _checked(request: Any, voice: VoiceEntry, record: RequestRecord) -> VoiceCall:
    call = check_voice_request(request, voice)
    record.text_chars, record.text = len(call.text), call.text
    record.arm, record.versions = STABLE_ARM, voice.versions
    if call.parameters.timeout_us is not None:
        record.limit(call.parameters.timeout_us / 1e6)
    # never the client's id: empty or repeated ids would let stages confuse requests
    call.request.id = record.id
    return call


def _tell(response: Any, call: VoiceCall, voice: VoiceEntry, dropped: dict[str, int]) -> None:
    """Add what is needed to make the same audio again, and what was not spoken."""
    response.parameters["seed"].int64_param = call.seed
    response.parameters["arm"].string_param = STABLE_ARM
    response.parameters["versions"].string_param = json.dumps(voice.versions)
    response.parameters["dropped"].string_param = json.dumps(dropped)


def _response(samples: Int16Array, model: str, client_id: str, call: VoiceCall, voice: VoiceEntry) -> Any:
    """``ModelInferResponse`` with the outputs that the client asked for, as the ensemble would give it."""
    response = pb.ModelInferResponse(model_name=model, model_version=VOICE_VERSION, id=client_id)
    wanted = {output.name for output in call.request.outputs}
    contents = {
        AUDIO: samples.astype("<i2", copy=False),
        SAMPLE_RATE: np.array([voice.sample_rate_hz], "<i4"),
    }
    for spec, array in contents.items():
        if not wanted or spec.name in wanted:
            response.outputs.add(name=spec.name, datatype=spec.dtype, shape=(1, *array.shape))
            response.raw_output_contents.append(array.tobytes())
    return response
