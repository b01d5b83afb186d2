"""Every HTTP error answer is ``{"error": "..."}``, whoever raised it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import http_exceptions, web

from voxrepo.edge import jsonbody
from voxrepo.edge.statuses import masking, retry_after_s
from voxrepo_contract.errors import Cancelled, InvalidArgument, VoxrepoError

BODY_TIMEOUT_S = 120.0
"""How long a body may take to arrive; a client that stops in the middle of one would hold its connection for ever."""

MAX_BODY_BYTES: web.AppKey[int] = web.AppKey("max_body_bytes", int)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def error_response(status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    """An error answer."""
    return web.Response(
        status=status, body=jsonbody.dump({"error": text}), headers=headers, content_type="application/json"
    )


def response_of(error: VoxrepoError) -> web.Response:
    """The answer to one of our errors."""
    seconds = retry_after_s(error)
    headers = None if seconds is None else {"Retry-After": str(seconds)}
    return error_response(error.http_status, error.message, headers)


def _response_of_aiohttp(error: web.HTTPException, request: web.Request) -> web.Response:
    path = request.path[:200]
    if isinstance(error, web.HTTPNotFound):
        return error_response(404, f"there is nothing at {path}")
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        return error_response(405, f"{path} takes {allowed}, not {request.method[:32]}", {"Allow": allowed})
    return error_response(error.status, error.reason)


class BodyTooLarge(InvalidArgument):
    """The body exceeds the limit."""

    http_status = 413


class BodyTooSlow(InvalidArgument):
    """The body has not arrived in time."""

    http_status = 408


async def read_body(request: web.Request) -> bytes:
    """The whole body, decompressed.

    Raises:
        BodyTooLarge: it exceeds the application's limit, once decompressed.
        BodyTooSlow: it takes longer than :data:`BODY_TIMEOUT_S`.
        Cancelled: the client has left.
        InvalidArgument: it cannot be decompressed, or its framing is broken.
    """
    try:
        return await asyncio.wait_for(request.read(), BODY_TIMEOUT_S)
    except asyncio.TimeoutError as error:
        raise BodyTooSlow(f"the body did not arrive within {BODY_TIMEOUT_S:g} s") from error
    except ConnectionResetError as error:
        # wait_for lets this through instead of the cancellation that it also comes with
        raise Cancelled("the client has left") from error
    except web.HTTPRequestEntityTooLarge as error:
        raise BodyTooLarge(f"the body exceeds the limit of {request.app[MAX_BODY_BYTES]} bytes") from error
    except (http_exceptions.HttpProcessingError, web.RequestPayloadError) as error:
        coding = request.headers.get("Content-Encoding", "")
        what = f"the body cannot be decoded as {coding[:32]!r}" if coding else "the body is cut off or malformed"
        raise InvalidArgument(what) from error


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Middleware that turns all errors into JSON answers."""
    try:
        with masking(f"{request.method[:32]} {request.path[:200]}"):
            try:
                return await handler(request)
            except web.HTTPException as error:
                return _response_of_aiohttp(error, request)
    except VoxrepoError as error:
        return response_of(error)
