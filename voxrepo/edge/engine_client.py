"""The shield around calls to the engine.

A call into the engine has no deadline and is never cancelled: short deadlines or cancels crash the engine within
seconds. Each call therefore runs in a task of its own. When its caller leaves or runs out of time, the caller is
answered and the task is left to drain. Gates bound the number of running calls, draining ones included, and order those
that wait. What each call took is measured and told.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import grpc
import grpc.aio
from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge.costs import Costs, units_of
from voxrepo.edge.gates import NOW, CallGate, Gates, LeavesOne, PoolOf
from voxrepo.edge.lines import Need, Place
from voxrepo.edge.reloads import RunningCalls

SERVICE = "inference.GRPCInferenceService"
MAX_CALLS = 32
"""Calls at a time of models that the table gives no number."""
MAX_MANAGEMENT_CALLS = 256
"""Bound of calls that are no inferences; surplus ones are refused at once."""

_UNLIMITED = -1
_CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", _UNLIMITED),
    ("grpc.max_send_message_length", _UNLIMITED),
    # an engine that was restarted is found again within a second; the default grows to two minutes
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class EngineCallFailed(Exception):
    """The engine, or the way to it, answered with an error.

    Attributes:
        code: name of the gRPC status.
        text: its details.
        from_engine: whether the engine itself said so, rather than the transport.
    """

    def __init__(self, code: str, text: str, from_engine: bool) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text
        self.from_engine = from_engine


@dataclass(frozen=True)
class CallReport:
    """An inference call that ended.

    Attributes:
        gate: whose gate it went through: the model, or one name for all models that the table does not know.
        waited_s: time in line.
        inside_s: time in the engine.
        shared_s: the part of it that says what calls cost, see :meth:`voxrepo.edge.gates.CallGate.used_s`.
        own_s: its part of the pool's time, likewise.
        answer: ``ModelInferResponse``, None if it failed.
        version: of the model, empty unless it has a gate of its own.
    """

    gate: str
    waited_s: float
    inside_s: float
    shared_s: float
    own_s: float
    answer: Any
    version: str = ""


class ModelReloaded(EngineCallFailed):
    """The model was loaded again since its process died; this call was to the one before. It may be repeated."""

    def __init__(self, model: str) -> None:
        super().__init__("CANCELLED", f"{model} was loaded again", from_engine=True)


class CallerTimedOut(Exception):
    """The caller's deadline passed; the engine's call goes on."""


class CalledOff(Exception):
    """The call was not made: when its turn came, it was not wanted any more."""


def _never() -> bool:
    return False


_TRANSPORT_TEXT = re.compile(
    r"failed to connect|socket closed|stream removed|connection (reset|refused)|broken pipe|unix:|ipv[46]:|GOAWAY",
    re.IGNORECASE,
)


def is_from_engine(code: str, details: str, connected: bool) -> bool:
    """Whether a failed call's status was sent by the engine, or made up by gRPC because the engine is not there.

    gRPC uses UNAVAILABLE for the latter and does not say which it was; its texts hold paths that clients must not see.

    Args:
        code: name of the status.
        details: its text.
        connected: whether the channel has a connection now.
    """
    return code != "UNAVAILABLE" or (connected and _TRANSPORT_TEXT.search(details) is None)


def _left_s(deadline_s: float | None) -> float | None:
    return None if deadline_s is None else max(deadline_s - time.monotonic(), 0.0)


class EngineClient:
    """Calls one engine.

    Args:
        target: gRPC target, such as ``unix:/run/voxrepo/engine.sock:1``.
        limit_of: inference calls at a time of a model, ``None`` if it has no number of its own.
        max_calls: inference calls at a time of all models without a number.
        pool_of: places that a model shares with others, see :class:`~voxrepo.edge.gates.Gates`.
        leaves_one: whether it leaves one of them to the others, likewise.

    Attributes:
        gates: the lines.
        costs: what calls cost.
        observers: called with every inference call that ended.
    """

    def __init__(
        self,
        target: str,
        limit_of: Callable[[str], int | None] = lambda model: None,
        max_calls: int = MAX_CALLS,
        pool_of: PoolOf = lambda model: None,
        leaves_one: LeavesOne = lambda model, version: False,
    ) -> None:
        self._channel = grpc.aio.insecure_channel(target, options=_CHANNEL_OPTIONS)
        self.gates = Gates(limit_of, max_calls, pool_of=pool_of, leaves_one=leaves_one)
        self.costs = Costs()
        self.observers: list[Callable[[CallReport], None]] = []
        self._management = CallGate("management calls", MAX_MANAGEMENT_CALLS, max_waiting=0)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._running = RunningCalls()
        self._infer = self._channel.unary_unary(
            f"/{SERVICE}/ModelInfer",
            request_serializer=pb.ModelInferRequest.SerializeToString,
            response_deserializer=pb.ModelInferResponse.FromString,
        )
        self._raw: dict[str, Any] = {}

    async def infer(
        self,
        request: Any,
        deadline_s: float | None,
        *,
        need: Need = NOW,
        told: Callable[[CallReport], None] = lambda report: None,
        is_off: Callable[[], bool] = _never,
    ) -> Any:
        """Call ``ModelInfer``.

        Args:
            request: ``ModelInferRequest``.
            deadline_s: the caller's deadline on the clock of ``time.monotonic``; the engine does not learn of it.
            need: what it is for; orders the line. Calls that go on with something begun find room in a full one.
            told: called when the call has ended, like the observers.
            is_off: asked when the call has got its place and is about to be made; a wait in line may be long.

        Returns:
            ``ModelInferResponse``.

        Raises:
            Unavailable: too many callers wait already.
            CallerTimedOut: the deadline passed.
            CalledOff: ``is_off`` said so.
            EngineCallFailed: the engine refused or cannot be reached.
            ModelReloaded: see :meth:`let_go`.
        """
        gate = self.gates.of(request.model_name, request.model_version)
        units = units_of(request)
        arrived_s = time.monotonic()
        if need.by_s is not None and deadline_s is not None:
            need = replace(need, by_s=min(need.by_s, deadline_s))

        def ended(place: Place, answer: Any) -> None:
            shared_s, own_s = gate.used_s(place)
            if answer is not None:
                self.costs.observe(gate.name, units, shared_s, own_s)
            waited_s, inside_s = place.entered_s - arrived_s, time.monotonic() - place.entered_s
            report = CallReport(gate.model, waited_s, inside_s, shared_s, own_s, answer, gate.version)
            for observer in (*self.observers, told):
                observer(report)

        return await self._shielded(gate, self._infer, request, deadline_s, need, units, ended, is_off)

    def let_go(self, model: str) -> int:
        """Let go of the calls of a model that run, because it was loaded again: their callers are told and may repeat
        them, their places are free. The calls themselves drain.

        Returns:
            how many there were.
        """
        return self._running.let_go(model)

    async def call(self, method: str, request: bytes, deadline_s: float | None) -> bytes:
        """Call any other unary method with a serialised request; see :meth:`infer` for the rest."""
        stub = self._raw.get(method)
        if stub is None:
            stub = self._raw[method] = self._channel.unary_unary(f"/{SERVICE}/{method}")
        answer: bytes = await self._shielded(self._management, stub, request, deadline_s)
        return answer

    async def _shielded(
        self,
        gate: CallGate,
        stub: Callable[[Any], Any],
        request: Any,
        deadline_s: float | None,
        need: Need = NOW,
        units: int = 1,
        ended: Callable[[Place, Any], None] = lambda place, answer: None,
        is_off: Callable[[], bool] = _never,
    ) -> Any:
        place = None
        if _left_s(deadline_s) != 0:
            place = await gate.enter(_left_s(deadline_s), need, units)
        if place is None:
            raise CallerTimedOut
        if is_off():
            gate.leave(place)
            raise CalledOff
        task = asyncio.create_task(self._run(gate, place, stub, request, ended))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        model = getattr(request, "model_name", "")
        lost, forget = self._running.enter(model)
        lost.add_done_callback(lambda _: gate.leave(place))
        task.add_done_callback(lambda _: forget())
        try:
            # unlike wait_for, wait leaves the task alone on a timeout and when this caller is cancelled
            await asyncio.wait((task, lost), timeout=_left_s(deadline_s), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._leave(gate, task)
            raise
        if not task.done():
            self._leave(gate, task)
            if lost.done():
                raise ModelReloaded(model)
            raise CallerTimedOut
        return task.result()

    async def _run(
        self,
        gate: CallGate,
        place: Place,
        stub: Callable[[Any], Any],
        request: Any,
        ended: Callable[[Place, Any], None],
    ) -> Any:
        answer = None
        try:
            answer = await stub(request)
            return answer
        except grpc.aio.AioRpcError as error:
            code, details = error.code().name, error.details() or ""
            connected = self._channel.get_state() is grpc.ChannelConnectivity.READY
            raise EngineCallFailed(code, details, is_from_engine(code, details, connected)) from None
        finally:
            try:
                ended(place, answer)
            finally:
                gate.leave(place)

    @staticmethod
    def _leave(gate: CallGate, task: asyncio.Task[Any]) -> None:
        def drained(done: asyncio.Task[Any]) -> None:
            gate.draining -= 1
            if not done.cancelled():
                done.exception()  # nobody waits for it; asyncio would complain that it was never looked at

        gate.draining += 1
        task.add_done_callback(drained)

    async def drain(self, timeout_s: float) -> bool:
        """Wait until no call runs in the engine.

        Returns:
            whether all ended within ``timeout_s``.
        """
        ends_s = time.monotonic() + timeout_s
        while self._tasks:
            # those in line start their calls as others end
            await asyncio.wait(self._tasks, timeout=_left_s(ends_s), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0)
            if time.monotonic() >= ends_s:
                break
        return not self._tasks

    async def close(self) -> None:
        """Close the channel. Calls that still run are cut off: drain first."""
        await self._channel.close()
