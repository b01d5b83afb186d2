"""How voices answer: short texts by one call of their ensemble, streams and long texts by calls of their stages."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import Any, Protocol

import numpy as np
from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge.admission import Admission
from voxrepo.edge.assigning import ArmGone, Assignment
from voxrepo.edge.costs import Costs
from voxrepo.edge.dropped import take_dropped
from voxrepo.edge.engine_client import CalledOff, CallerTimedOut, CallReport, EngineCallFailed, ModelReloaded
from voxrepo.edge.engine_errors import is_passing
from voxrepo.edge.gates import NOW, line_name
from voxrepo.edge.holding import Holding
from voxrepo.edge.lines import Need
from voxrepo.edge.pieces_plan import JOINED_GROUPS, STREAM_GROUPS
from voxrepo.edge.playback import Playback
from voxrepo.edge.seen import Seen
from voxrepo.edge.stage_calls import Int16Array
from voxrepo.edge.streaming import Opening, VoiceStream, WindowCost, one_ahead
from voxrepo.edge.table import EdgeTable, VoiceEntry
from voxrepo.edge.validation import VOICE_VERSION, VoiceCall, check_voice_request
from voxrepo.metrics.accounting import RequestRecord
from voxrepo_contract.errors import VoxrepoError
from voxrepo_contract.names import stage_model_name
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

    async def infer(
        self,
        request: Any,
        deadline_s: float | None,
        *,
        need: Need = NOW,
        told: Callable[[CallReport], None],
        is_off: Callable[[], bool],
    ) -> Any:
        """Call ``ModelInfer``."""


class VoiceCalls:
    """Inference with voices.

    Args:
        engine: client of the engine.
        holding: where requests wait for a voice in recovery.
        refusal: the client's error for a failed call: failure, model, version, voice, request id.
        table: the current one.
        admission: who is let in; None for everybody.
        long_text_chars: longest text that the ensemble gets.
    """

    def __init__(
        self,
        engine: Engine,
        holding: Holding,
        refusal: Refusal,
        table: Callable[[], EdgeTable],
        admission: Admission | None = None,
        long_text_chars: int = LONG_TEXT_CHARS,
    ) -> None:
        self._engine = engine
        self._holding = holding
        self._refusal = refusal
        self._table = table
        self._admission = admission
        self._long_text_chars = long_text_chars

    async def infer(self, request: Any, assignment: Assignment, record: RequestRecord, seen: Seen | None = None) -> Any:
        """One answer with all the audio; see :meth:`voxrepo.edge.dataplane.DataPlane.infer`.

        Args:
            request: the client's request.
            assignment: who serves it.
            record: of the request.
            seen: takes what is said and heard.

        Raises:
            ArmGone: its arm was taken away while it waited.
            VoxrepoError: it is refused or has failed.
        """
        voice = assignment.entry
        call = _checked(request, assignment, record, seen)
        if len(call.text) > self._long_text_chars:
            if self._admission is not None:
                self._admission.check_long(voice.base, len(call.text), record.remaining_s(), voice.versions)
            return await self._joined(call, request, assignment, record, seen)
        if self._admission is not None:
            self._admission.check(voice.base, len(call.text), record.remaining_s(), voice.ensemble)
        response = await self._call(call.request, NOW, assignment, record)
        response.id, response.model_name = request.id, request.model_name
        # ensembles add sequence parameters that mean nothing here
        response.parameters.clear()
        record.dropped = take_dropped(response)
        _tell(response, call, voice, record.dropped)
        for index, output in enumerate(response.outputs):
            if output.name == AUDIO.name:
                record.audio_s = output.shape[-1] / voice.sample_rate_hz
                if seen is not None and index < len(response.raw_output_contents):
                    seen.audio.append(response.raw_output_contents[index])
        return response

    def _let_in_stream(self, call: VoiceCall, voice: VoiceEntry, record: RequestRecord) -> AbstractContextManager[None]:
        if self._admission is None:
            return nullcontext()
        return self._admission.stream(voice.base, len(call.text), record.remaining_s(), voice.versions)

    async def _joined(
        self, call: VoiceCall, request: Any, assignment: Assignment, record: RequestRecord, seen: Seen | None
    ) -> Any:
        # as if it were played, fast, from the start: streams with audio in hand wait for it, those without do not
        voice = assignment.entry
        playback = Playback(record.started_s, begins_s=record.started_s, pace=JOINED_PACE)
        stream = self._stream(call, assignment, record, JOINED_GROUPS, playback)
        samples = await stream.whole()
        record.dropped = stream.dropped
        record.audio_s = len(samples) / voice.sample_rate_hz
        if seen is not None:
            seen.audio.append(samples)
        response = _response(samples, request, call, voice)
        _tell(response, call, voice, stream.dropped)
        return response

    async def stream(
        self, request: Any, assignment: Assignment, record: RequestRecord, seen: Seen | None = None
    ) -> AsyncGenerator[tuple[Any, bool], None]:
        """The audio in pieces; see :meth:`voxrepo.edge.dataplane.DataPlane.stream` and :meth:`infer`."""
        voice = assignment.entry
        call = _checked(request, assignment, record, seen)
        stream = self._stream(call, assignment, record, STREAM_GROUPS, Playback(record.started_s), is_heard=True)
        with self._let_in_stream(call, voice, record):
            async with aclosing(one_ahead(stream.pieces())) as pieces:
                async for piece in pieces:
                    maker = assignment.opening if assignment.opening is not None and piece.is_opening else voice
                    response = _response(piece.samples, request, call, voice)
                    record.dropped = stream.dropped
                    _tell(response, call, maker, stream.dropped)
                    record.piece(len(piece.samples) / voice.sample_rate_hz)
                    if seen is not None:
                        seen.audio.append(piece.samples)
                    yield response, piece.is_last

    def _stream(
        self,
        call: VoiceCall,
        assignment: Assignment,
        record: RequestRecord,
        groups: Sequence[int],
        playback: Playback,
        *,
        is_heard: bool = False,
    ) -> VoiceStream:
        async def infer(stage_request: Any, needed_by_s: float | None) -> Any:
            need = Need(needed_by_s, begins=needed_by_s is None, is_heard=is_heard)
            return await self._call(stage_request, need, assignment, record)

        opening = Opening(assignment.opening) if assignment.opening is not None else None
        # only where somebody listens must a call not hold up others
        window_s: WindowCost = self._window_s if is_heard else lambda _: 0.0
        return VoiceStream(call, assignment.entry, record.id, infer, groups, playback, opening, window_s)

    def _window_s(self, voice: VoiceEntry) -> float:
        line = line_name(stage_model_name(voice.base, "vocoder"), voice.versions["vocoder"])
        return self._engine.costs.predict(line, voice.window_frames)

    async def _call(self, request: Any, need: Need, assignment: Assignment, record: RequestRecord) -> Any:
        """An engine call, repeated once if it met a fault that the supervisor cures.

        Also in a stream that has given out audio, which then has a gap: calls have no side effects, and the same
        versions give the same samples.
        """
        names = assignment.names
        try:
            return await self._once(request, need, assignment, record)
        except EngineCallFailed as failure:
            error = self._refusal(failure, request.model_name, request.model_version, assignment.entry, record.id)
            if not is_passing(failure.code, failure.text, failure.from_engine, self._holding.is_held(*names)):
                raise error from failure
            is_cured = isinstance(failure, ModelReloaded)
        if is_cured:
            await self._holding.pass_when_free(names, record)
        else:
            await self._holding.pass_after_failure(names, record, lambda: assignment.is_gone(self._table()))
        if assignment.is_gone(self._table()):
            raise ArmGone(error.message)
        try:
            return await self._once(request, need, assignment, record)
        except EngineCallFailed as failure:
            error = self._refusal(failure, request.model_name, request.model_version, assignment.entry, record.id)
            if assignment.is_gone(self._table()):
                raise ArmGone(error.message) from failure
            raise error from failure

    async def _once(self, request: Any, need: Need, assignment: Assignment, record: RequestRecord) -> Any:
        """An engine call, made while the voice is not held: what happens to it may have changed during a wait in line.

        A call of the ensemble names no versions. It is not made once the ensemble has others than those assigned; the
        table says so before the voice is free again.
        """
        entry = assignment.entry
        is_whole = request.model_name == entry.ensemble

        def is_replaced() -> bool:
            return is_whole and assignment.is_replaced(self._table())

        def is_off() -> bool:
            return self._holding.is_held(*assignment.names) or is_replaced()

        def told(report: CallReport) -> None:
            record.engine_took(report.inside_s)

        while True:
            await self._holding.pass_when_free(assignment.names, record)
            if is_replaced():
                raise ArmGone(f"{entry.ensemble} has other versions now; try again")
            try:
                return await self._engine.infer(request, record.deadline_s, need=need, told=told, is_off=is_off)
            except CalledOff:
                continue
            except CallerTimedOut:
                raise record.deadline_error() from None


def _checked(request: Any, assignment: Assignment, record: RequestRecord, seen: Seen | None) -> VoiceCall:
    record.arm, record.versions = assignment.arm, assignment.entries[0].versions
    call = check_voice_request(request, assignment.entry)
    record.text_chars, record.text = len(call.text), call.text
    if seen is not None:
        seen.call = call
        seen.audio.clear()
    if call.parameters.timeout_us is not None:
        record.limit(call.parameters.timeout_us / 1e6)
    # never the client's id: empty or repeated ids would let stages confuse requests
    call.request.id = record.id
    return call


def _tell(response: Any, call: VoiceCall, voice: VoiceEntry, dropped: dict[str, int]) -> None:
    """Add what is needed to make the same audio again, and what was not spoken."""
    response.parameters["seed"].int64_param = call.seed
    response.parameters["arm"].string_param = voice.arm
    response.parameters["versions"].string_param = json.dumps(voice.versions)
    response.parameters["dropped"].string_param = json.dumps(dropped)


def _response(samples: Int16Array, request: Any, call: VoiceCall, voice: VoiceEntry) -> Any:
    """``ModelInferResponse`` with the outputs that the client asked for, as the ensemble would give it."""
    response = pb.ModelInferResponse(model_name=request.model_name, model_version=VOICE_VERSION, id=request.id)
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
