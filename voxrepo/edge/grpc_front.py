"""The gRPC door: the Open Inference service and gRPC's own health service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from google.protobuf.wrappers_pb2 import Int32Value, StringValue
from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge import views
from voxrepo.edge.dataplane import DataPlane
from voxrepo.edge.engine_client import SERVICE
from voxrepo.edge.grpc_stream import serve_stream
from voxrepo.edge.listening import give_up_port
from voxrepo.edge.options import ROUTING_KEY_HEADER
from voxrepo.edge.statuses import grpc_status, masking, retry_after_s
from voxrepo.edge.tally import Tally
from voxrepo.edge.wire import parsed, serialize_response
from voxrepo.metrics.accounting import Accountant
from voxrepo_contract.errors import InvalidArgument, PermissionDenied, VoxrepoError

HEALTH_SERVICE = "grpc.health.v1.Health"
PROTOCOL = "grpc"

_REFUSED = (
    "RepositoryModelLoad",
    "RepositoryModelUnload",
    "SystemSharedMemoryStatus",
    "SystemSharedMemoryRegister",
    "SystemSharedMemoryUnregister",
    "CudaSharedMemoryStatus",
    "CudaSharedMemoryRegister",
    "CudaSharedMemoryUnregister",
)
MAX_PENDING_CALLS = 10_000
"""Some 10 kB each; a storm of clients that give up within milliseconds leaves thousands of them on a busy machine."""

_HEALTH = ("ServerLive", "ServerReady", "ModelReady")
"""Answered as long as anybody can ask."""

_SERVING, _NOT_SERVING = 1, 2
_UNLIMITED = -1

Handler = Callable[[Any, Any], Awaitable[Any]]
Call = Callable[[bytes, Any], Awaitable[bytes]]


def control_refused(method: str) -> PermissionDenied:
    """The answer to calls that would change the server."""
    return PermissionDenied(f"{method} is not available to clients; models are managed with the voxrepo command")


def _unary(method: str, kind: Any, handler: Handler, admit: Callable[[], None]) -> grpc.RpcMethodHandler:
    """A handler of raw bytes that answers our errors as statuses."""

    async def call(raw: bytes, context: Any) -> bytes:
        try:
            with masking(method):
                admit()
                answer = await handler(parsed(kind, raw), context)
                return bytes(answer.SerializeToString())
        except VoxrepoError as error:
            return await _abort(context, error)

    return grpc.unary_unary_rpc_method_handler(call)


async def _abort(context: Any, error: VoxrepoError) -> bytes:
    code, text = grpc_status(error)
    seconds = retry_after_s(error)
    await context.abort(code, text, () if seconds is None else (("retry-after", str(seconds)),))
    raise AssertionError("abort returns never")


class GrpcFront:
    """The gRPC services over a data plane.

    Args:
        plane: the server behind.
        accountant: counts the inferences.
        max_message_bytes: largest message accepted.
        shares_port: whether other processes of this server listen on the same port.
        routing_key_header: key of the metadata with the routing key.

    Attributes:
        running: inferences whose answers have not been sent; those that came after the server's stop are only refused,
            and do not count.
    """

    def __init__(
        self,
        plane: DataPlane,
        accountant: Accountant,
        max_message_bytes: int,
        shares_port: bool = False,
        routing_key_header: str = ROUTING_KEY_HEADER,
    ) -> None:
        self._plane = plane
        self._routing_key_header = routing_key_header
        self._accountant = accountant
        self._port = 0
        self.running = Tally()
        self._server = grpc.aio.server(
            options=(
                ("grpc.max_receive_message_length", max_message_bytes),
                ("grpc.max_send_message_length", _UNLIMITED),
                # never by default: a second server could take half of the connections of the first, unnoticed
                ("grpc.so_reuseport", int(shares_port)),
                # calls that gRPC's core holds until this process takes them: beyond 1000 it would cancel new ones at
                # once, and those of clients that left count until they are taken
                ("grpc.server.max_pending_requests", MAX_PENDING_CALLS),
                ("grpc.server.max_pending_requests_hard_limit", MAX_PENDING_CALLS),
            )
        )
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(SERVICE, self._methods()),
                grpc.method_handlers_generic_handler(
                    HEALTH_SERVICE, {"Check": grpc.unary_unary_rpc_method_handler(self._health_check)}
                ),
            )
        )

    def _methods(self) -> dict[str, grpc.RpcMethodHandler]:
        served: dict[str, tuple[Any, Handler]] = {
            "ServerLive": (pb.ServerLiveRequest, self._server_live),
            "ServerReady": (pb.ServerReadyRequest, self._server_ready),
            "ServerMetadata": (pb.ServerMetadataRequest, self._server_metadata),
            "ModelReady": (pb.ModelReadyRequest, self._model_ready),
            "ModelMetadata": (pb.ModelMetadataRequest, self._model_metadata),
            "ModelConfig": (pb.ModelConfigRequest, self._model_config),
            "ModelStatistics": (pb.ModelStatisticsRequest, self._model_statistics),
            "RepositoryIndex": (pb.RepositoryIndexRequest, self._repository_index),
            "TraceSetting": (pb.TraceSettingRequest, self._trace_setting),
            "LogSettings": (pb.LogSettingsRequest, self._log_settings),
        }
        admit = self._plane.refuse_if_stopping
        methods = {
            method: _unary(method, kind, handler, (lambda: None) if method in _HEALTH else admit)
            for method, (kind, handler) in served.items()
        }
        for method in _REFUSED:
            methods[method] = grpc.unary_unary_rpc_method_handler(self._refusing(method))
        methods["ModelInfer"] = grpc.unary_unary_rpc_method_handler(self._model_infer)
        methods["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(self._model_stream_infer)
        return methods

    # ---- life cycle

    def listen(self, host: str, port: int) -> int:
        """Bind the port, to be called before :meth:`start`.

        Returns:
            the port, which differs from the argument if that is 0.
        """
        shown_host = f"[{host}]" if ":" in host else host
        self._port = int(self._server.add_insecure_port(f"{shown_host}:{port}"))
        return self._port

    async def start(self) -> None:
        """Begin to serve."""
        await self._server.start()

    async def close(self) -> None:
        """End all connections, and calls that still run with them.

        For clients the server is then not there: UNAVAILABLE. gRPC's own stop would answer calls that arrive at that
        moment, and those that still run, with CANCELLED, as if the client had cancelled them.
        """
        if self._port:
            await asyncio.to_thread(give_up_port, self._port)
        await self._server.stop(None)

    def _count(self, context: Any) -> None:
        if not self._plane.stopped.is_set():
            self.running.add()
            context.add_done_callback(lambda _: self.running.remove())

    # ---- inference

    async def _model_infer(self, raw: bytes, context: Any) -> bytes:
        self._count(context)
        try:
            with self._accountant.request("", PROTOCOL) as record:
                record.limit(context.time_remaining())
                record.routing_key = self._routing_key(context)
                request = parsed(pb.ModelInferRequest, raw)
                record.model = request.model_name
                return serialize_response(await self._plane.infer(request, record))
        except VoxrepoError as error:
            return await _abort(context, error)

    async def _model_stream_infer(self, _requests: Any, context: Any) -> None:
        self._count(context)
        try:
            await serve_stream(context, self._plane, self._accountant, lambda: self._routing_key(context))
        except VoxrepoError as error:
            await _abort(context, error)

    def _routing_key(self, context: Any) -> str:
        if not self._plane.has_routes:
            return ""
        found = (value for key, value in context.invocation_metadata() if key == self._routing_key_header)
        value = next(found, "")
        return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")

    # ---- everything else

    async def _server_live(self, _request: Any, _context: Any) -> Any:
        return pb.ServerLiveResponse(live=True)

    async def _server_ready(self, _request: Any, context: Any) -> Any:
        return pb.ServerReadyResponse(ready=await self._plane.ready(context.time_remaining()))

    async def _server_metadata(self, _request: Any, _context: Any) -> Any:
        return views.server_metadata()

    async def _model_ready(self, request: Any, context: Any) -> Any:
        ready = await self._plane.model_ready(request.name, request.version, context.time_remaining())
        return pb.ModelReadyResponse(ready=ready)

    async def _model_metadata(self, request: Any, context: Any) -> Any:
        return await self._plane.metadata(request.name, request.version, context.time_remaining())

    async def _model_config(self, request: Any, context: Any) -> Any:
        return await self._plane.config(request.name, request.version, context.time_remaining())

    async def _model_statistics(self, request: Any, context: Any) -> Any:
        return await self._plane.statistics(request.name, request.version, context.time_remaining())

    async def _repository_index(self, request: Any, context: Any) -> Any:
        return await self._plane.index(request.ready, context.time_remaining())

    async def _trace_setting(self, request: Any, context: Any) -> Any:
        if request.settings:
            raise control_refused("TraceSetting with settings")
        return await self._plane.trace_settings(request.model_name, context.time_remaining())

    async def _log_settings(self, request: Any, context: Any) -> Any:
        if request.settings:
            raise control_refused("LogSettings with settings")
        return await self._plane.log_settings(context.time_remaining())

    @staticmethod
    def _refusing(method: str) -> Call:
        async def refuse(_raw: bytes, context: Any) -> bytes:
            return await _abort(context, control_refused(method))

        return refuse

    async def _health_check(self, raw: bytes, context: Any) -> bytes:
        # HealthCheckRequest is one string, HealthCheckResponse one enum, both field 1: on the wire the same as
        # protobuf's wrapper types, which saves a dependency
        try:
            service = parsed(StringValue, raw).value
        except InvalidArgument as error:
            return await _abort(context, error)
        if service not in ("", SERVICE):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"unknown service; known: {SERVICE}")
        ready = await self._plane.ready(context.time_remaining())
        return bytes(Int32Value(value=_SERVING if ready else _NOT_SERVING).SerializeToString())
