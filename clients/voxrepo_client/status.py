"""Transport statuses to this library's errors: pure functions, shared by every transport."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from voxrepo_client.errors import (
    BadResponse,
    ConnectionFailed,
    InvalidRequest,
    NotPermitted,
    ServerBusy,
    ServerError,
    TimedOut,
    VoiceNotFound,
    VoxrepoClientError,
)

_INVALID_CODES = frozenset({"INVALID_ARGUMENT", "ALREADY_EXISTS", "FAILED_PRECONDITION", "OUT_OF_RANGE"})
_INVALID_STATUSES = frozenset({400, 405, 409, 411, 413, 415, 422, 431})

# gRPC uses UNAVAILABLE both for what the server answers and for what its own channel met on the way; the texts of
# the channel (gRPC core, 1.50 to 1.85) tell them apart
_CHANNEL_TEXTS = re.compile(
    r"failed to connect|errors resolving|DNS resolution|address lookup|connection (refused|reset|closed|aborted)"
    r"|socket closed|broken pipe|cancelling all calls|goaway|no route to host|network is unreachable"
    r"|empty address list|http1\.x|stream removed|ping timeout|keepalive|handshake|end of tcp stream|fd shutdown"
    r"|tcp_(read|write)|recvmsg|sendmsg|endpoint closing|transport (closed|shutdown)",
    re.IGNORECASE,
)
_DEADLINE_TEXTS = re.compile(r"timed out|deadline|timeout expired", re.IGNORECASE)
_SHOWN_CHARS = 200


def parse_retry_after_s(value: str | None) -> float | None:
    """Seconds of a ``Retry-After`` header; ``None`` where it is missing, negative or given as a date."""
    try:
        seconds = float(value) if value else -1.0
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def error_from_grpc(
    code: str, details: str, *, metadata: Mapping[str, str], debug: str, address: str
) -> VoxrepoClientError:
    """The error for a gRPC status.

    Args:
        code: name of the status, with or without ``StatusCode.`` in front.
        details: the status text.
        metadata: trailing metadata, keys in lower case.
        debug: gRPC's debug string; older releases write into it that the status came from the peer.
        address: where the call went, for the message.
    """
    code = code.removeprefix("StatusCode.")
    text = details.strip() or f"the server answered {code} without a text"
    if code in _INVALID_CODES:
        return InvalidRequest(text, code=code)
    if code == "NOT_FOUND":
        return VoiceNotFound(text, code=code)
    if code in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
        return NotPermitted(text, code=code)
    if code == "DEADLINE_EXCEEDED":
        # gRPC's own text says only "Deadline Exceeded"
        timed_out = "the time limit passed before the server answered"
        return TimedOut(timed_out if text.casefold() == "deadline exceeded" else text, code=code)
    if code in ("UNAVAILABLE", "RESOURCE_EXHAUSTED"):
        answered = "received from peer" in debug
        if code == "UNAVAILABLE" and not answered and _CHANNEL_TEXTS.search(text):
            return ConnectionFailed(f"no connection to {address}: {text}", code=code)
        return ServerBusy(text, code=code, retry_after_s=parse_retry_after_s(metadata.get("retry-after")))
    if code == "CANCELLED":
        return ConnectionFailed(f"the call to {address} was cancelled: {text}", code=code)
    return ServerError(text, code=code)


def _error_text(body: bytes) -> str | None:
    # {"error": "text"} is the protocol's form, {"error": {"message": "text"}} OpenAI's
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return None
    error = parsed.get("error") if isinstance(parsed, dict) else None
    if isinstance(error, dict):
        error = error.get("message")
    return error if isinstance(error, str) and error.strip() else None


def error_from_http(status: int, body: bytes, *, retry_after: str | None, address: str) -> VoxrepoClientError:
    """The error for an HTTP status that is not 200.

    Args:
        status: the HTTP status.
        body: of the answer; the protocol wants ``{"error": "<text>"}``.
        retry_after: the ``Retry-After`` header.
        address: where the call went, for the message.
    """
    code = str(status)
    told = _error_text(body)
    shown = body[:_SHOWN_CHARS].decode("utf-8", "replace").strip()
    text = told or f"{address} answered HTTP {status}" + (f": {shown}" if shown else " with an empty body")
    if status in (408, 504) or (status == 503 and told is not None and _DEADLINE_TEXTS.search(told)):
        return TimedOut(text, code=code)
    if status in (429, 503):
        return ServerBusy(text, code=code, retry_after_s=parse_retry_after_s(retry_after))
    if status in (401, 403):
        return NotPermitted(text, code=code)
    if status in _INVALID_STATUSES:
        return InvalidRequest(text, code=code)
    if status == 404:
        if told is None:
            return BadResponse(
                f"{text} (this address does not speak the Open Inference Protocol; check host, port and path)",
                code=code,
            )
        return VoiceNotFound(text, code=code)
    return ServerError(text, code=code)


def error_from_event(document: Mapping[str, Any]) -> VoxrepoClientError:
    """The error that a server-sent event tells, after the status 200 has gone out.

    Args:
        document: the event: ``error``, its text, and where the server says so ``code``, the name of a gRPC status.
    """
    text, code = document.get("error"), document.get("code")
    told = text if isinstance(text, str) else json.dumps(text)[:_SHOWN_CHARS]
    if isinstance(code, str) and code:
        # the server's own word, so that no text can be mistaken for the channel's
        return error_from_grpc(code, told, metadata={}, debug="received from peer", address="")
    return ServerError(told)
