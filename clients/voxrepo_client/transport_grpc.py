"""The gRPC transports, on tritonclient's clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import grpc
import tritonclient.grpc
import tritonclient.grpc.aio
from tritonclient.grpc import service_pb2_grpc
from tritonclient.utils import InferenceServerException

from voxrepo_client.address import Address
from voxrepo_client.errors import BadResponse, ClientClosed, InvalidRequest, VoxrepoClientError
from voxrepo_client.protocol import DTYPES, InferAnswer, InferCall, timeout_us
from voxrepo_client.status import error_from_grpc
from voxrepo_client.stream_grpc import AsyncGrpcAnswerStream, GrpcAnswerStream, answer_of
from voxrepo_client.transport import CONNECT_TIMEOUT_S, closed_error

_MAX_MESSAGE_BYTES = 2**31 - 1

_CHANNEL_OPTIONS = [
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    # otherwise all clients of a process share one connection, hence one worker process of the server
    ("grpc.use_local_subchannel_pool", 1),
    # gRPC's name for the time one attempt to connect may take
    ("grpc.min_reconnect_backoff_ms", int(CONNECT_TIMEOUT_S * 1000)),
    # after a failed attempt gRPC fails calls without trying, by default for up to two minutes: far longer than a
    # restart of the server takes
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


def _channel_options(address: Address) -> list[tuple[str, int]]:
    # gRPC would send even these calls through the proxy that the environment names, which leads to another machine
    return [*_CHANNEL_OPTIONS, *([("grpc.enable_http_proxy", 0)] if address.is_loopback else [])]


def _open_channel(module: Any, address: Address) -> Any:
    """A channel of ``grpc`` or of ``grpc.aio``; connects with the first call."""
    options = _channel_options(address)
    if address.tls:
        return module.secure_channel(address.target, grpc.ssl_channel_credentials(), options=options)
    return module.insecure_channel(address.target, options=options)


def _inputs(call: InferCall) -> list[Any]:
    tensors = []
    for name, array in call.inputs.items():
        tensor = tritonclient.grpc.InferInput(name, list(array.shape), DTYPES[name])
        tensor.set_data_from_numpy(array)
        tensors.append(tensor)
    return tensors


def _infer_arguments(call: InferCall, timeout_s: float | None, headers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "model_name": call.model,
        "inputs": _inputs(call),
        "parameters": dict(call.parameters) or None,
        "timeout": timeout_us(timeout_s),
        "client_timeout": timeout_s,
        "headers": dict(headers),
    }


def _translate(error: InferenceServerException, address: Address) -> VoxrepoClientError:
    status = error.status()
    if status is None:  # tritonclient refused something before sending it
        return InvalidRequest(str(error))
    # tritonclient drops the metadata; the gRPC error that it replaced is still the context
    trailing = getattr(error.__context__, "trailing_metadata", lambda: None)() or ()
    metadata = {key.lower(): value for key, value in trailing if isinstance(value, str)}
    return error_from_grpc(
        status,
        error.message() or "",
        metadata=metadata,
        debug=str(error.debug_details() or ""),
        address=str(address),
    )


@contextmanager
def _typed_errors(address: Address) -> Iterator[None]:
    try:
        yield
    except InferenceServerException as error:
        raise _translate(error, address) from error
    except grpc.RpcError as error:
        raise BadResponse(f"the answer of {address} cannot be read: {error}") from error
    except (ValueError, TypeError) as error:
        # grpc's own words for a channel that another thread closed meanwhile
        if "closed channel" in str(error):
            raise closed_error(address) from error
        raise InvalidRequest(f"the request cannot be sent: {error}") from error


class GrpcTransport:
    """Blocking; one connection for unary calls and one for streams, made with the first call of their kind.

    tritonclient documents its clients as not thread-safe because of their streams, which are not used here; a unary
    call touches nothing but the gRPC channel, and that is thread-safe.
    """

    def __init__(self, address: Address, headers: Mapping[str, str]) -> None:
        self._address = address
        self._headers = dict(headers)
        self._closed = False
        self._client = tritonclient.grpc.InferenceServerClient(
            address.target, ssl=address.tls, channel_args=_channel_options(address)
        )
        self._stream_channel = _open_channel(grpc, address)
        self._stream_stub = service_pb2_grpc.GRPCInferenceServiceStub(self._stream_channel)

    @contextmanager
    def _call(self) -> Iterator[None]:
        if self._closed:
            raise closed_error(self._address)
        with _typed_errors(self._address):
            yield

    def infer(self, call: InferCall, timeout_s: float | None) -> InferAnswer:
        """Send one request and wait for its answer."""
        with self._call():
            return answer_of(self._client.infer(**_infer_arguments(call, timeout_s, self._headers)).get_response())

    def stream(self, call: InferCall, timeout_s: float | None) -> GrpcAnswerStream:
        """One request that is answered in pieces."""
        with self._call():
            return GrpcAnswerStream(self._stream_stub, call, timeout_s, self._headers, self._address)

    def index(self, timeout_s: float | None) -> list[dict[str, Any]]:
        """The repository index."""
        with self._call():
            answer = self._client.get_model_repository_index(
                headers=self._headers, as_json=True, client_timeout=timeout_s
            )
        return list(answer.get("models", []))

    def metadata(self, model: str, timeout_s: float | None) -> dict[str, Any]:
        """Metadata of a model."""
        with self._call():
            return dict(
                self._client.get_model_metadata(model, headers=self._headers, as_json=True, client_timeout=timeout_s)
            )

    def config(self, model: str, timeout_s: float | None) -> dict[str, Any]:
        """Configuration of a model."""
        with self._call():
            answer = self._client.get_model_config(model, headers=self._headers, as_json=True, client_timeout=timeout_s)
        return dict(answer.get("config", {}))

    def close(self) -> None:
        """Free the connection; calls in flight end with an error."""
        if not self._closed:
            self._closed = True
            self._stream_channel.close()
            self._client.close()


class AsyncGrpcTransport:
    """For asyncio; one connection for unary calls and one for streams, bound to the event loop of the first call."""

    def __init__(self, address: Address, headers: Mapping[str, str]) -> None:
        self._address = address
        self._headers = dict(headers)
        self._client: Any = None
        self._stream_channel: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @contextmanager
    def _call(self) -> Iterator[Any]:
        if self._closed:
            raise closed_error(self._address)
        loop = asyncio.get_running_loop()
        if self._client is None:
            self._loop = loop
            self._client = tritonclient.grpc.aio.InferenceServerClient(
                self._address.target, ssl=self._address.tls, channel_args=_channel_options(self._address)
            )
            self._stream_channel = _open_channel(grpc.aio, self._address)
        elif loop is not self._loop:
            raise ClientClosed(f"the client of {self._address} belongs to another event loop; make one per loop")
        try:
            with _typed_errors(self._address):
                yield self._client
        except grpc.aio.UsageError as error:  # closed between the check above and the call
            raise closed_error(self._address) from error

    async def infer(self, call: InferCall, timeout_s: float | None) -> InferAnswer:
        """Send one request and wait for its answer."""
        with self._call() as client:
            result = await client.infer(**_infer_arguments(call, timeout_s, self._headers))
            return answer_of(result.get_response())

    def stream(self, call: InferCall, timeout_s: float | None) -> AsyncGrpcAnswerStream:
        """One request that is answered in pieces."""
        with self._call():
            stub = service_pb2_grpc.GRPCInferenceServiceStub(self._stream_channel)
            return AsyncGrpcAnswerStream(stub, call, timeout_s, self._headers, self._address, lambda: self._closed)

    async def index(self, timeout_s: float | None) -> list[dict[str, Any]]:
        """The repository index."""
        with self._call() as client:
            answer = await client.get_model_repository_index(
                headers=self._headers, as_json=True, client_timeout=timeout_s
            )
        return list(answer.get("models", []))

    async def metadata(self, model: str, timeout_s: float | None) -> dict[str, Any]:
        """Metadata of a model."""
        with self._call() as client:
            return dict(
                await client.get_model_metadata(model, headers=self._headers, as_json=True, client_timeout=timeout_s)
            )

    async def config(self, model: str, timeout_s: float | None) -> dict[str, Any]:
        """Configuration of a model."""
        with self._call() as client:
            answer = await client.get_model_config(model, headers=self._headers, as_json=True, client_timeout=timeout_s)
        return dict(answer.get("config", {}))

    async def close(self) -> None:
        """Free the connection; calls in flight end with an error."""
        if not self._closed:
            self._closed = True
            if self._client is not None:
                await self._stream_channel.close()
                await self._client.close()
