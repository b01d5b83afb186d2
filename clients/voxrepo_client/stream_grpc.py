"""Streams over gRPC: one ModelStreamInfer call for each, on the messages and stubs that tritonclient carries.

tritonclient's blocking client has one stream per object, read without limit by a thread of its own. Here every stream
is a call of its own on a shared channel: any number at once, read at the pace of the caller (gRPC's flow control
stops the server), cancelled one by one, nothing to match by id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import grpc
import tritonclient.grpc
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

from voxrepo_client.address import Address
from voxrepo_client.errors import BadResponse, ClientClosed, InvalidRequest, ServerError, VoxrepoClientError
from voxrepo_client.protocol import DTYPES, FINAL_PARAMETER, InferAnswer, InferCall, timeout_us
from voxrepo_client.status import error_from_grpc
from voxrepo_client.transport import closed_error

_EMPTY_FINAL_PARAMETER = "triton_enable_empty_final_response"
# of a voxrepo server: the status of an error in a stream, which the protocol's error messages lack
_CODE_PARAMETER = "error_code"
_RETRY_PARAMETER = "retry_after_s"


def _plain(parameters: Any) -> dict[str, Any]:
    return {
        key: getattr(value, value.WhichOneof("parameter_choice"))
        for key, value in parameters.items()
        if value.WhichOneof("parameter_choice")
    }


def answer_of(response: Any) -> InferAnswer:
    """The answer in a ``ModelInferResponse``.

    Raises:
        BadResponse: a tensor does not fit its description.
    """
    result = tritonclient.grpc.InferResult(response)
    try:
        outputs = {output.name: result.as_numpy(output.name) for output in response.outputs}
    except (ValueError, TypeError, IndexError, InferenceServerException) as error:
        raise BadResponse(f"an output tensor does not fit its description: {error}") from error
    return InferAnswer(
        {name: array for name, array in outputs.items() if array is not None}, _plain(response.parameters)
    )


def _request(call: InferCall, timeout_s: float | None) -> Any:
    request = service_pb2.ModelInferRequest(model_name=call.model)
    for name, array in call.inputs.items():
        request.inputs.add(name=name, datatype=DTYPES[name], shape=array.shape)
        raw = serialize_byte_tensor(array).item() if DTYPES[name] == "BYTES" else array.tobytes()
        request.raw_input_contents.append(raw)
    for name, value in call.parameters.items():
        if isinstance(value, bool):
            request.parameters[name].bool_param = value
        else:
            request.parameters[name].double_param = value
    limit_us = timeout_us(timeout_s)
    if limit_us is not None:
        request.parameters["timeout"].int64_param = limit_us
    # the last piece need not wait until it is known to be the last
    request.parameters[_EMPTY_FINAL_PARAMETER].bool_param = True
    return request


def _translate(error: Any, address: Address) -> VoxrepoClientError:
    code = error.code()
    if code is grpc.StatusCode.CANCELLED:
        # of a call that this side cancelled, gRPC waits with the rest until the server has ended it too
        return error_from_grpc(code.name, error.details() or "", metadata={}, debug="", address=str(address))
    trailing = error.trailing_metadata() or ()
    return error_from_grpc(
        code.name,
        error.details() or "",
        metadata={key.lower(): value for key, value in trailing if isinstance(value, str)},
        debug=str(error.debug_error_string() or ""),
        address=str(address),
    )


def _error_of(message: Any) -> VoxrepoClientError:
    """The error in a ``ModelStreamInferResponse``."""
    parameters = _plain(message.infer_response.parameters)
    code = parameters.get(_CODE_PARAMETER)
    if not isinstance(code, str):
        return ServerError(message.error_message)
    # the server's own word, so that no text can be mistaken for the channel's
    return error_from_grpc(
        code,
        message.error_message,
        metadata={"retry-after": str(parameters.get(_RETRY_PARAMETER, ""))},
        debug="received from peer",
        address="",
    )


@contextmanager
def _typed_errors(address: Address) -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        if not isinstance(getattr(error, "code", lambda: None)(), grpc.StatusCode):
            raise BadResponse(f"the answer of {address} cannot be read: {error}") from error
        raise _translate(error, address) from error
    except (ValueError, TypeError) as error:
        # grpc's own words for a channel that was closed
        if "closed channel" in str(error):
            raise closed_error(address) from error
        raise InvalidRequest(f"the request cannot be sent: {error}") from error


class _Answers:
    """What the blocking and the asynchronous stream share: judging messages."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._is_final = False

    def _accept(self, message: Any) -> InferAnswer:
        if message.error_message:
            raise _error_of(message)
        answer = answer_of(message.infer_response)
        self._is_final = bool(answer.parameters.get(FINAL_PARAMETER, False))
        return answer

    def _check_end(self) -> None:
        if not self._is_final:
            raise BadResponse(f"{self._address} ended the stream before its last piece")


class GrpcAnswerStream(_Answers):
    """One call, for blocking code."""

    def __init__(
        self, stub: Any, call: InferCall, timeout_s: float | None, headers: Mapping[str, str], address: Address
    ) -> None:
        super().__init__(address)
        self._stub = stub
        self._request = _request(call, timeout_s)
        self._timeout_s = timeout_s
        self._metadata = tuple(headers.items())
        self._call: Any = None
        self._is_cancelled = False

    def read(self) -> InferAnswer | None:
        """Wait for the next answer; ``None`` after the last."""
        with _typed_errors(self._address):
            if self._call is None:
                self._call = self._stub.ModelStreamInfer(
                    iter([self._request]), timeout=self._timeout_s, metadata=self._metadata
                )
                if self._is_cancelled:  # by another thread, meanwhile
                    self._call.cancel()
            message = next(self._call, None)
        if message is not None:
            return self._accept(message)
        self._check_end()
        return None

    def cancel(self) -> None:
        """End the call at the server."""
        self._is_cancelled = True
        if self._call is not None:
            self._call.cancel()


class AsyncGrpcAnswerStream(_Answers):
    """One call, for asyncio; ``is_closed`` says whether the channel has been closed meanwhile."""

    def __init__(
        self,
        stub: Any,
        call: InferCall,
        timeout_s: float | None,
        headers: Mapping[str, str],
        address: Address,
        is_closed: Callable[[], bool],
    ) -> None:
        super().__init__(address)
        self._is_closed = is_closed
        self._stub = stub
        self._request = _request(call, timeout_s)
        self._timeout_s = timeout_s
        self._metadata = tuple(headers.items())
        self._call: Any = None
        self._is_cancelled = False
        self._loop = asyncio.get_running_loop()

    async def read(self) -> InferAnswer | None:
        """Wait for the next answer; ``None`` after the last."""
        if asyncio.get_running_loop() is not self._loop:
            raise ClientClosed(f"the stream of {self._address} belongs to another event loop")
        try:
            with _typed_errors(self._address):
                if self._call is None:
                    self._call = self._stub.ModelStreamInfer(
                        iter([self._request]), timeout=self._timeout_s, metadata=self._metadata
                    )
                message = await self._call.read()
        except grpc.aio.UsageError as error:  # the channel was closed
            raise closed_error(self._address) from error
        except asyncio.CancelledError as error:
            # gRPC's word for a call that this side ended, by cancel() or by closing the channel, and asyncio's for a
            # task that was cancelled
            if self._is_cancelled or self._is_closed():
                raise closed_error(self._address) from error
            self.cancel()
            raise
        if message is not grpc.aio.EOF:
            return self._accept(message)
        self._check_end()
        return None

    def cancel(self) -> None:
        """End the call at the server."""
        self._is_cancelled = True
        if self._call is not None and not self._loop.is_closed():
            self._call.cancel()
