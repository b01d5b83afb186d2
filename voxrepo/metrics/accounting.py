"""Every inference request is counted once and leaves one log line, whatever happens to it."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from voxrepo.metrics.registry import EdgeMetrics
from voxrepo_contract.errors import (
    Cancelled,
    DeadlineExceeded,
    Internal,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Unavailable,
    Unimplemented,
    VoxrepoError,
)

log = logging.getLogger(__name__)
request_log = logging.getLogger("voxrepo.requests")

UNKNOWN_MODEL = "unknown"
"""Label of all names that no model has; names come from clients and must not grow the set of series."""

_MAX_LOGGED_CHARS = 128
_DEADLINE_TOLERANCE_S = 0.01  # gRPC's own timers have another clock and a grain of a millisecond


def new_request_id() -> str:
    """An id that no other request has: 16 hex digits."""
    return secrets.token_hex(8)


def masked_text(request_id: str) -> str:
    """What a client is told of a fault of the server."""
    return f"internal error, id {request_id}; see the server's log"


def outcome_of(error: VoxrepoError) -> str:
    """The label ``outcome`` for a failed request."""
    if isinstance(error, DeadlineExceeded):
        return "timed_out"
    if isinstance(error, Cancelled):
        return "cancelled"
    if isinstance(error, Unavailable):
        return "rejected"
    if isinstance(error, InvalidArgument | NotFound | PermissionDenied | Unimplemented):
        return "invalid"
    return "failed"


@dataclass
class RequestRecord:
    """What is known of one request; filled in on its way.

    Attributes:
        id: unique within and across servers.
        model: model name as the client gave it.
        protocol: door it came through.
        client_id: id that the client gave, not trusted to be unique.
        deadline_s: the caller's limit on the clock of ``time.monotonic``, None for none.
        text_chars: length of the text, once checked.
        audio_s: length of the audio answered.
        dropped: characters that were not spoken, by reason.
        text: the text itself, logged only if the server was told to.
    """

    model: str
    protocol: str
    id: str = field(default_factory=new_request_id)
    client_id: str = ""
    started_s: float = field(default_factory=time.monotonic)
    deadline_s: float | None = None
    text_chars: int | None = None
    audio_s: float | None = None
    dropped: dict[str, int] = field(default_factory=dict)
    text: str | None = None
    outcome: str = "ok"
    code: str = "OK"

    def limit(self, seconds: float | None) -> None:
        """Set the deadline to ``seconds`` after the request's arrival, unless an earlier one is set."""
        if seconds is None:
            return
        deadline_s = self.started_s + seconds
        if self.deadline_s is None or deadline_s < self.deadline_s:
            self.deadline_s = deadline_s

    def remaining_s(self) -> float | None:
        """Seconds left, 0 or below if the deadline has passed, None if there is none."""
        return None if self.deadline_s is None else self.deadline_s - time.monotonic()

    def deadline_error(self) -> DeadlineExceeded:
        """The error to answer once the deadline has passed."""
        limit_ms = 0.0 if self.deadline_s is None else (self.deadline_s - self.started_s) * 1000
        return DeadlineExceeded(f"timed out after {limit_ms:g} ms")


class Accountant:
    """Counts and logs requests.

    Args:
        metrics: where to count.
        is_model: whether a name is that of a model; other names share one label.
        log_text: also log what was said.
    """

    def __init__(self, metrics: EdgeMetrics, is_model: Callable[[str], bool], log_text: bool = False) -> None:
        self._metrics = metrics
        self._is_model = is_model
        self._log_text = log_text

    @contextmanager
    def request(self, model: str, protocol: str) -> Iterator[RequestRecord]:
        """Account for the request that the block serves.

        Errors pass through; one that is not a :class:`VoxrepoError` is logged and becomes :class:`Internal` with a
        masked text. A cancelled block counts as timed out if the request's deadline has passed: a transport may
        cancel at the deadline before the edge's own timer fires.

        Raises:
            VoxrepoError: from the block.
            asyncio.CancelledError: from the block.
        """
        record = RequestRecord(model, protocol)
        self._metrics.in_flight.inc()
        try:
            yield record
        except VoxrepoError as error:
            record.outcome, record.code = outcome_of(error), error.grpc_code
            raise
        except (asyncio.CancelledError, GeneratorExit):
            remaining_s = record.remaining_s()
            late = remaining_s is not None and remaining_s <= _DEADLINE_TOLERANCE_S
            error_type = DeadlineExceeded if late else Cancelled
            record.outcome, record.code = outcome_of(error_type("")), error_type.grpc_code
            raise
        except Exception as error:
            record.outcome, record.code = "failed", Internal.grpc_code
            log.exception("request %s of model %r failed", record.id, record.model[:_MAX_LOGGED_CHARS])
            raise Internal(masked_text(record.id)) from error
        finally:
            self._metrics.in_flight.dec()
            self._finish(record)

    def _finish(self, record: RequestRecord) -> None:
        seconds = time.monotonic() - record.started_s
        label = record.model if self._is_model(record.model) else UNKNOWN_MODEL
        self._metrics.requests.labels(label, record.protocol, record.outcome, record.code).inc()
        self._metrics.duration.labels(label).observe(seconds)
        if record.outcome == "ok":
            if record.audio_s is not None:
                self._metrics.audio_seconds.labels(label).inc(record.audio_s)
            if record.text_chars is not None:
                self._metrics.text_chars.labels(label).inc(record.text_chars)
            for reason, count in record.dropped.items():
                self._metrics.dropped_chars.labels(label, reason).inc(count)
        if request_log.isEnabledFor(logging.INFO):
            request_log.info("%s", self._line(record, seconds))

    def _line(self, record: RequestRecord, seconds: float) -> str:
        entry: dict[str, object] = {
            "id": record.id,
            "model": record.model[:_MAX_LOGGED_CHARS],
            "protocol": record.protocol,
            "outcome": record.outcome,
            "code": record.code,
            "ms": round(seconds * 1000, 1),
        }
        if record.client_id:
            entry["client_id"] = record.client_id[:_MAX_LOGGED_CHARS]
        if record.text_chars is not None:
            entry["chars"] = record.text_chars
        if record.audio_s is not None:
            entry["audio_ms"] = round(record.audio_s * 1000)
        if record.dropped:
            entry["dropped"] = record.dropped
        if self._log_text and record.text is not None:
            entry["text"] = record.text
        return json.dumps(entry)
