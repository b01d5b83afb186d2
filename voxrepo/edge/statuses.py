"""What the doors answer to errors: gRPC codes, when to try again, and a mask for what nobody foresaw."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from voxrepo.metrics.accounting import masked_text, new_request_id
from voxrepo_contract.errors import DeadlineExceeded, Internal, Unavailable, VoxrepoError

log = logging.getLogger(__name__)

RETRY_AFTER_S = 1
MAX_RETRY_AFTER_S = 60

MAX_ASCII_CHARS = 4000
MAX_OTHER_CHARS = 800
"""gRPC carries error texts percent-encoded in a header, and clients refuse headers above 8 KiB."""


def grpc_status(error: VoxrepoError) -> tuple[grpc.StatusCode, str]:
    """Status code and details to answer."""
    text = error.message
    limit = MAX_ASCII_CHARS if text.isascii() else MAX_OTHER_CHARS
    if len(text) > limit:
        text = text[: limit - 3] + "..."
    return grpc.StatusCode[error.grpc_code], text


def retry_after_s(error: VoxrepoError) -> int | None:
    """Seconds after which a caller that was turned away may try again; None for other errors."""
    if not isinstance(error, Unavailable) or isinstance(error, DeadlineExceeded):
        return None
    if error.retry_after_s is None:
        return RETRY_AFTER_S
    return min(max(math.ceil(error.retry_after_s), RETRY_AFTER_S), MAX_RETRY_AFTER_S)


@contextmanager
def masking(what: str) -> Iterator[None]:
    """Log what is not a :class:`VoxrepoError` and raise a masked one in its place.

    Raises:
        VoxrepoError: from the block, or :class:`Internal`.
    """
    try:
        yield
    except VoxrepoError:
        raise
    except Exception as error:
        request_id = new_request_id()
        log.exception("request %s (%s) failed", request_id, what)
        raise Internal(masked_text(request_id)) from error
