"""Pure: what the engine's refusals become for clients."""

from __future__ import annotations

import re

from voxrepo.metrics.accounting import masked_text
from voxrepo_contract.errors import (
    AlreadyExists,
    Internal,
    InvalidArgument,
    NotFound,
    Unavailable,
    Unimplemented,
    VoxrepoError,
)

UNREACHABLE = "the engine cannot be reached; try again in a moment"

_ENSEMBLE_PREFIX = re.compile(r"\Ain ensemble '[^']*', ")
_REQUEST_PREFIX = re.compile(r"\A\[request id: [^\]]*\] ")
_QUEUE_FULL = "Exceeds maximum queue size"
_DECOUPLED = "decoupled transaction policy"
_NOT_LOADED = re.compile(r"not at ready state|no available versions|is not ready")
_DEAD_STUB = re.compile(r"Stub process .* is not healthy")

_PASSED: dict[str, type[VoxrepoError]] = {
    "INVALID_ARGUMENT": InvalidArgument,
    "NOT_FOUND": NotFound,
    "UNAVAILABLE": Unavailable,
    "UNIMPLEMENTED": Unimplemented,
    "ALREADY_EXISTS": AlreadyExists,
}


def clean(text: str) -> str:
    """Strip what only tells how the engine is built: request ids and the ensembles that a message came through."""
    previous = None
    while text != previous:
        previous = text
        text = _ENSEMBLE_PREFIX.sub("", _REQUEST_PREFIX.sub("", text))
    return text


def engine_error(code: str, text: str, *, from_engine: bool, request_id: str) -> VoxrepoError:
    """The error that a client gets for a failed engine call.

    Args:
        code: name of the gRPC status.
        text: its details.
        from_engine: False if the transport made the status up, because the engine is not there.
        request_id: id under which the details are logged.
    """
    # nobody here cancels a call into the engine: it does so itself when it stops
    if not from_engine or code == "CANCELLED":
        return Unavailable(UNREACHABLE)
    kind = _PASSED.get(code)
    if kind is None:
        return Internal(masked_text(request_id))
    if _QUEUE_FULL in text:
        return Unavailable("the queue is full; try again in a moment")
    if _DECOUPLED in text:
        # the engine's text names a call that the client may not have made, and advises one that ends here as well
        return Unimplemented(
            "this model answers a request any number of times (decoupled transaction policy), which this server passes "
            "on for the streams of voices only; a model that answers each request once can be called"
        )
    return kind(clean(text) or f"the engine answered {code}")


def is_passing(code: str, text: str, from_engine: bool, in_recovery: bool) -> bool:
    """Whether a call of a voice failed for a fault that the supervisor cures, so that it may be repeated.

    That is an engine that cannot be reached, a model whose process is dead, and one that is not loaded at the moment.
    A full queue is no fault.

    Args:
        code: name of the gRPC status.
        text: its details.
        from_engine: False if the transport made the status up.
        in_recovery: whether the supervisor is at it already; then anything that may be tried again is taken for it.
    """
    if not from_engine or code in ("CANCELLED", "NOT_FOUND"):
        return True
    if _DEAD_STUB.search(text):
        return True
    return code == "UNAVAILABLE" and _QUEUE_FULL not in text and (in_recovery or _NOT_LOADED.search(text) is not None)


def is_masked(error: VoxrepoError) -> bool:
    """Whether the client is told less than the log must hold."""
    return isinstance(error, Internal) or error.message == UNREACHABLE
