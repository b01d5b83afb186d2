"""What the server does, whatever the transport: one method per thing a client can ask for.

Messages are those of the gRPC protocol. All errors raised are :class:`~voxrepo_contract.errors.VoxrepoError`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge import views
from voxrepo.edge.admission import NO_LIMITS, Admission, AdmissionLimits
from voxrepo.edge.arm_calls import ArmCalls
from voxrepo.edge.arm_models import is_unlisted, is_voice
from voxrepo.edge.assigning import Assigner
from voxrepo.edge.copies import NOT_COUNTED, Copies, CopyCounts
from voxrepo.edge.engine_client import CallerTimedOut, EngineCallFailed, EngineClient
from voxrepo.edge.engine_errors import engine_error, is_masked
from voxrepo.edge.holding import HOLD_TIMEOUT_S, Holding
from voxrepo.edge.in_use import InUse
from voxrepo.edge.observing import Observer
from voxrepo.edge.parameters import shown, timeout_us_of
from voxrepo.edge.stream_statistics import StreamStatistics
from voxrepo.edge.table import TableWatcher, VoiceEntry
from voxrepo.edge.tally import Tally
from voxrepo.edge.validation import check_voice_version, refuse_shared_memory
from voxrepo.edge.voice_calls import LONG_TEXT_CHARS, VoiceCalls
from voxrepo.metrics.accounting import RequestRecord, new_request_id
from voxrepo_contract.errors import (
    DeadlineExceeded,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Unavailable,
    VoxrepoError,
)
from voxrepo_contract.names import STREAM_SUFFIX, VOICE_STAGES, is_model_name

log = logging.getLogger(__name__)

MANAGEMENT_TIMEOUT_S = 10.0
"""How long a caller waits for anything but an inference; a hung engine must not hang health checks."""

_MAX_KNOWN_MODELS = 1024
_MAX_VOICES_SHOWN = 20

_RESPONSES = {
    "ServerReady": pb.ServerReadyResponse,
    "ModelReady": pb.ModelReadyResponse,
    "ModelMetadata": pb.ModelMetadataResponse,
    "ModelConfig": pb.ModelConfigResponse,
    "ModelStatistics": pb.ModelStatisticsResponse,
    "RepositoryIndex": pb.RepositoryIndexResponse,
    "TraceSetting": pb.TraceSettingResponse,
    "LogSettings": pb.LogSettingsResponse,
}


def not_unary(voice: str) -> InvalidArgument:
    """The error for a unary call of a voice's stream."""
    return InvalidArgument(
        f"ModelInfer (/infer, /generate) doesn't support models with decoupled transaction policy, and "
        f"{voice}{STREAM_SUFFIX} is one: call ModelStreamInfer (/generate_stream), or the model {voice} for one answer"
    )


class DataPlane:
    """The server without its transports.

    Args:
        engine: client of the engine.
        tables: source of the current table of voices.
        hold_timeout_s: how long a request waits for a voice in recovery.
        limits: who is let in.
        show_streams: told the number of active streams of a voice when it changes.
        observer: takes what requests of voices under a rollout were like; None if nobody wants to know.
        copy_counts: where copies for comparison are counted.
        unused: told of what requests used and use no more, see :class:`~voxrepo.edge.in_use.InUse`.

    Attributes:
        in_use: counts what requests use.
        stopped: set at shutdown; new requests are then refused and readiness is false.
        serving: inferences that are being served.
    """

    def __init__(
        self,
        engine: EngineClient,
        tables: TableWatcher,
        hold_timeout_s: float = HOLD_TIMEOUT_S,
        limits: AdmissionLimits = NO_LIMITS,
        show_streams: Callable[[str, int], None] = lambda voice, streams: None,
        observer: Observer | None = None,
        copy_counts: CopyCounts = NOT_COUNTED,
        unused: Callable[[str], None] = lambda key: None,
    ) -> None:
        self._engine = engine
        self._tables = tables
        self._holding = Holding(tables, hold_timeout_s)
        self._admission = Admission(engine, lambda: self.voices, limits, show_streams)
        engine.observers.append(self._admission.observe)
        calls = VoiceCalls(engine, self._holding, self._refusal, lambda: tables.table, self._admission)
        self.in_use = InUse(unused)
        wait_s = self._admission.wait_s
        copies = None
        if observer is not None:
            copies = Copies(engine, lambda: tables.table, self.in_use, wait_s, observer, LONG_TEXT_CHARS, copy_counts)
        assigner = Assigner(lambda: tables.table, wait_s)
        self._arms = ArmCalls(calls, assigner, lambda: tables.table, self._voice, self.in_use, observer, copies)
        self._stream_statistics = StreamStatistics()
        self._known: set[str] = set()
        self.stopped = asyncio.Event()
        self.serving = Tally()

    @property
    def voices(self) -> dict[str, VoiceEntry]:
        """Voices by name, at this moment."""
        return self._tables.table.voices

    @property
    def stall_timeout_s(self) -> float:
        """How long a stream is kept though its client takes nothing; 0 for ever."""
        return self._admission.limits.stall_timeout_s

    def use_limits(self, limits: AdmissionLimits) -> None:
        """Decide by these limits from now on."""
        self._admission.limits = limits

    def is_model(self, name: str) -> bool:
        """Whether ``name`` is a voice or its stream, or a model that has answered before."""
        return name.removesuffix(STREAM_SUFFIX) in self.voices or name in self._known

    @property
    def has_routes(self) -> bool:
        """Whether any voice's requests are divided among arms, so that their keys matter."""
        return bool(self._tables.table.routes)

    async def close(self) -> None:
        """Give up what nobody waits for."""
        await self._arms.close()

    def refuse_if_stopping(self) -> None:
        """Refuse new work during shutdown.

        Raises:
            Unavailable: the server is stopping.
        """
        if self.stopped.is_set():
            raise Unavailable(
                "the server is stopping; send the request to another one or try again later", reason="stopping"
            )

    # ---- inference

    async def infer(self, request: Any, record: RequestRecord) -> Any:
        """Serve a ``ModelInferRequest``.

        Args:
            request: the client's request; for voices it is checked and completed, other models get it as it is.
            record: deadline and account of the request.

        Returns:
            ``ModelInferResponse`` with the client's request id. For voices its parameters hold ``seed`` and
            ``versions``, enough to make the same audio again, ``arm``, and ``dropped``, what was not spoken.
        """
        self.refuse_if_stopping()
        with self.serving.one():
            record.client_id = record.client_id or request.id
            stream_of = self.voice_of_stream(request.model_name)
            if stream_of is not None:
                raise not_unary(stream_of)
            voice = await self._voice(request.model_name, record)
            if voice is None:
                return await self._infer_other(request, record)
            return await self._arms.infer(request.model_name, voice, request, record)

    async def stream(self, request: Any, record: RequestRecord) -> AsyncGenerator[tuple[Any, bool], None]:
        """Serve a ``ModelInferRequest`` to the model ``<voice>.stream``; close the generator to drop the request.

        Args:
            request: the client's request; it is checked and completed as for the voice itself.
            record: deadline and account of the request.

        Yields:
            ``ModelInferResponse`` with the next piece of audio, each as :meth:`infer` answers, and whether it is the
            last. Joined, the pieces equal the audio of :meth:`infer` for the same seed. The next piece is made while
            the caller deals with this one; no more than that, so a slow reader holds up only himself.
        """
        self.refuse_if_stopping()
        with self.serving.one():
            record.client_id = record.client_id or request.id
            name = self.voice_of_stream(request.model_name)
            voice = None if name is None else await self._voice(name, record)
            if voice is None:
                raise self._unserved(request.model_name, "") or self._unknown_model(request.model_name, "")
            assert name is not None
            with self._stream_statistics.counting(voice.name):
                async with aclosing(self._arms.stream(name, voice, request, record)) as pieces:
                    async for piece in pieces:
                        yield piece

    def voice_of_stream(self, name: str) -> str | None:
        """The voice whose pieces the model ``name`` gives; None if it is no such model."""
        voice = name.removesuffix(STREAM_SUFFIX)
        return voice if voice != name and (voice in self.voices or self._holding.keeps_out(voice)) else None

    async def _voice(self, name: str, record: RequestRecord) -> VoiceEntry | None:
        """The voice ``name``, None if there is none; one in recovery is waited for, before anything of it is used."""
        row = self.voices.get(name)
        await self._holding.begin_when_free((name,) if row is None else (row.base, name), record)
        return self.voices.get(name)

    def _inner(self, name: str) -> str:
        """The model behind ``name``: for a stream, its voice."""
        return self.voice_of_stream(name) or name

    def _ensemble(self, name: str) -> str:
        """The model that the engine has for the voice, or other model, ``name``."""
        voice = self.voices.get(name)
        return name if voice is None else voice.ensemble

    def _unserved(self, name: str, version: str = "") -> Unavailable | None:
        """Why a model of the repository cannot be called now, whatever the engine thinks of it."""
        table = self._tables.table
        # a voice that is not served has no entry by which its stream would be known
        names = (name, name.removesuffix(STREAM_SUFFIX))
        if not {*names}.isdisjoint(table.loading):
            return Unavailable(f"{name} is loading; try again in a moment")
        for problem in table.problems:
            if problem.model in names and problem.version in ("", version):
                which = f"{name} version {version}" if problem.version else name
                return Unavailable(f"{which} is not served: something is wrong with it; `voxrepo status` says what")
        return None

    async def _infer_other(self, request: Any, record: RequestRecord) -> Any:
        self._check_name(request.model_name, request.model_version)
        unserved = self._unserved(request.model_name, request.model_version)
        if unserved is not None:
            raise unserved
        voice, _, stage = request.model_name.rpartition(".")
        if stage in VOICE_STAGES and is_voice(self._tables.table, voice):
            # the voice's limits hold at its own door only; a stage would take a text of any length
            raise PermissionDenied(f"{request.model_name} is a stage of the voice {voice}; call the voice")
        refuse_shared_memory(request)
        timeout_us = timeout_us_of(request.parameters)
        if timeout_us is not None:
            record.limit(timeout_us / 1e6)
        await self._holding.pass_when_free((request.model_name,), record)
        try:
            response = await self._engine.infer(request, record.deadline_s)
        except CallerTimedOut:
            raise record.deadline_error() from None
        except EngineCallFailed as failure:
            raise self._refusal(failure, request.model_name, request.model_version, None, record.id) from failure
        if len(self._known) < _MAX_KNOWN_MODELS:
            self._known.add(request.model_name)
        return response

    def _refusal(
        self, failure: EngineCallFailed, name: str, version: str, voice: VoiceEntry | None, request_id: str
    ) -> VoxrepoError:
        error = engine_error(failure.code, failure.text, from_engine=failure.from_engine, request_id=request_id)
        if is_masked(error):
            log.error("request %s of model %r: the engine answered %s", request_id, name[:128], failure)
        if not isinstance(error, NotFound):
            return error
        if voice is not None:
            return Unavailable(f"voice {voice.name!r} is not loaded at the moment: {error.message}")
        return self._unserved(name, version) or self._unknown_model(name, version)

    def _unknown_model(self, name: str, version: str) -> NotFound:
        voices = sorted(self.voices)
        more = len(voices) - _MAX_VOICES_SHOWN
        listed = ", ".join(voices[:_MAX_VOICES_SHOWN]) + (f" and {more} more" if more > 0 else "")
        of_version = f" version {shown(version)}" if version else ""
        return NotFound(f"unknown model {shown(name)}{of_version}; voices: {listed or 'none'}")

    # ---- everything else

    async def _manage(
        self, method: str, request: Any, timeout_s: float | None, name: str = "", version: str = ""
    ) -> Any:
        limit_s = MANAGEMENT_TIMEOUT_S if timeout_s is None else min(timeout_s, MANAGEMENT_TIMEOUT_S)
        try:
            raw = await self._engine.call(method, request.SerializeToString(), time.monotonic() + limit_s)
        except CallerTimedOut:
            if limit_s < MANAGEMENT_TIMEOUT_S:
                raise DeadlineExceeded(f"timed out after {limit_s * 1000:g} ms") from None
            raise Unavailable(f"the engine did not answer within {limit_s:g} s") from None
        except EngineCallFailed as failure:
            raise self._refusal(failure, name, version, self.voices.get(name), new_request_id()) from failure
        return _RESPONSES[method].FromString(raw)

    def _check_name(self, name: str, version: str) -> None:
        """Refuse a name that no model can have, and one that clients are not to know.

        The engine reads a name with a NUL as the part before it, and has ensembles that the table does not offer.

        Raises:
            NotFound: it is no model's name.
            Unavailable: something is wrong with the model.
        """
        if not is_model_name(name) or is_unlisted(self._tables.table, name):
            raise self._unserved(name, version) or self._unknown_model(name, version)

    def _check_version(self, name: str, version: str) -> None:
        if name:  # without one, all models are meant
            self._check_name(name, version)
        if name in self.voices:
            check_voice_version(version, name)

    async def ready(self, timeout_s: float | None = None) -> bool:
        """Whether the server takes requests.

        Loading is done, it is not stopping, its lines let in a request for at least one voice, and the engine is ready.
        """
        if self.stopped.is_set() or not self._tables.table.ready or not self._admission.lets_in():
            return False
        try:
            return bool((await self._manage("ServerReady", pb.ServerReadyRequest(), timeout_s)).ready)
        except Unavailable:
            return False

    async def model_ready(self, name: str, version: str, timeout_s: float | None = None) -> bool:
        """Whether the model is served and the engine says that it is ready; false for unknown models and versions."""
        name = self._inner(name)
        if self.stopped.is_set() or self._unserved(name, version) is not None:
            return False
        try:
            self._check_version(name, version)
            request = pb.ModelReadyRequest(name=self._ensemble(name), version=version)
            return bool((await self._manage("ModelReady", request, timeout_s, name, version)).ready)
        except (NotFound, Unavailable):
            return False

    async def metadata(self, name: str, version: str, timeout_s: float | None = None) -> Any:
        """``ModelMetadataResponse`` of a model."""
        inner = self._inner(name)
        self._check_version(inner, version)
        request = pb.ModelMetadataRequest(name=self._ensemble(inner), version=version)
        response = await self._manage("ModelMetadata", request, timeout_s, inner, version)
        if inner in self.voices:
            views.hide_inner_outputs(response.outputs)
            response.name = inner
        if inner != name:
            response.name, response.platform = name, views.SERVER_NAME
        return response

    async def config(self, name: str, version: str, timeout_s: float | None = None) -> Any:
        """``ModelConfigResponse`` of a model; for voices with optional inputs and the voice's properties."""
        inner = self._inner(name)
        self._check_version(inner, version)
        request = pb.ModelConfigRequest(name=self._ensemble(inner), version=version)
        response = await self._manage("ModelConfig", request, timeout_s, inner, version)
        voice = self.voices.get(inner)
        if voice is not None:
            views.describe_voice(response, voice)
            response.config.name = inner
        if inner != name:
            views.describe_stream(response.config, inner)
        return response

    async def statistics(self, name: str, version: str, timeout_s: float | None = None) -> Any:
        """``ModelStatisticsResponse`` of a model, of all with an empty name.

        The numbers are the engine's own, but those of streams: these are counted here, in each process by itself.
        """
        inner = self._inner(name)
        self._check_version(inner, version)
        if inner != name:
            return pb.ModelStatisticsResponse(model_stats=[self._stream_statistics.of(inner)])
        request = pb.ModelStatisticsRequest(name=name, version=version)
        try:
            response = await self._manage("ModelStatistics", request, timeout_s, name, version)
        except InvalidArgument as error:  # the engine's answer to names it does not know, in this call only
            raise self._unserved(name, version) or self._unknown_model(name, version) from error
        if not name:
            views.hide_unlisted(response.model_stats, self._tables.table)
            response.model_stats.extend(self._stream_statistics.of(voice) for voice in self.voices)
        return response

    async def index(self, ready_only: bool, timeout_s: float | None = None) -> Any:
        """``RepositoryIndexResponse``: the engine's models, corrected by what is not served."""
        response = await self._manage("RepositoryIndex", pb.RepositoryIndexRequest(ready=ready_only), timeout_s)
        views.correct_index(response, self._tables.table, ready_only=ready_only)
        return response

    async def trace_settings(self, name: str, timeout_s: float | None = None) -> Any:
        """``TraceSettingResponse``; reading only."""
        self._check_version(name, "")
        return await self._manage("TraceSetting", pb.TraceSettingRequest(model_name=name), timeout_s, name)

    async def log_settings(self, timeout_s: float | None = None) -> Any:
        """``LogSettingsResponse``; reading only."""
        return await self._manage("LogSettings", pb.LogSettingsRequest(), timeout_s)
