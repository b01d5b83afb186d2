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

MAX_VERSION_SETS = 256
OTHER_VERSIONS = "other"
"""Label of further sets of versions once :data:`MAX_VERSION_SETS` have been seen since the start."""

MAX_ARMS = 64
OTHER_ARMS = "other"
"""Label of the arms of further rollouts once :data:`MAX_ARMS` names have been seen since the start."""

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
        audio_s: length of the audio answered; of a stream, of the audio sent so far.
        engine_s: seconds that its calls were in the engine, waits in line left out; the sum, where it takes several.
        dropped: characters that were not spoken, by reason.
        text: the text itself, logged only if the server was told to.
        arm: arm of a rollout that serves it, empty for what is no voice.
        versions: versions of the voice's stages that serve it.
        reason: one word on why it was refused.
        pieces: pieces of audio sent; 0 for what is no stream.
        first_piece_s: seconds from its arrival to the first of them.
        gaps_s: seconds from each piece to the next.
        underruns: pieces that came when a player, started with the first piece, had nothing left to play.
        routing_key: of the header for it; empty without one.
        ended: called once with this and the seconds that it took, after it was counted.
    """

    model: str
    protocol: str
    id: str = field(default_factory=new_request_id)
    client_id: str = ""
    started_s: float = field(default_factory=time.monotonic)
    deadline_s: float | None = None
    text_chars: int | None = None
    audio_s: float | None = None
    engine_s: float | None = None
    dropped: dict[str, int] = field(default_factory=dict)
    text: str | None = None
    arm: str = ""
    versions: dict[str, int] = field(default_factory=dict)
    outcome: str = "ok"
    code: str = "OK"
    reason: str = ""
    pieces: int = 0
    first_piece_s: float | None = None
    gaps_s: list[float] = field(default_factory=list)
    underruns: int = 0
    routing_key: str = ""
    ended: Callable[[RequestRecord, float], None] | None = None
    _last_piece_s: float = 0.0
    _played_until_s: float = 0.0

    @property
    def played_until_s(self) -> float | None:
        """When a player that started with the first piece will have played all that was sent.

        On the clock of ``time.monotonic``; None before the first piece. A continuation is needed by then.
        """
        return self._played_until_s if self.pieces else None

    def engine_took(self, seconds: float) -> None:
        """Account for a call that has ended in the engine."""
        self.engine_s = (self.engine_s or 0.0) + seconds

    def piece(self, audio_s: float) -> None:
        """Account for a piece of a stream that has been handed to the transport.

        Args:
            audio_s: length of its audio.
        """
        now_s = time.monotonic()
        if not self.pieces:
            self.first_piece_s = now_s - self.started_s
            self._played_until_s = now_s
            self.audio_s = 0.0
        else:
            self.gaps_s.append(now_s - self._last_piece_s)
            if now_s > self._played_until_s:
                # a player stalls here and goes on with this piece
                self.underruns += 1
                self._played_until_s = now_s
        self.pieces += 1
        self._last_piece_s = now_s
        self._played_until_s += audio_s
        self.audio_s = (self.audio_s or 0.0) + audio_s

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

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed, or will within the precision of a transport's timers."""
        remaining_s = self.remaining_s()
        return remaining_s is not None and remaining_s <= _DEADLINE_TOLERANCE_S

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
        self._version_sets: set[str] = set()
        self._arms: set[str] = set()

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
            if isinstance(error, Unavailable):
                record.reason = record.reason or error.reason
            raise
        except (asyncio.CancelledError, GeneratorExit):
            error_type = DeadlineExceeded if record.is_late else Cancelled
            record.outcome, record.code = outcome_of(error_type("")), error_type.grpc_code
            raise
        except Exception as error:
            record.outcome, record.code = "failed", Internal.grpc_code
            log.exception("request %s of model %r failed", record.id, record.model[:_MAX_LOGGED_CHARS])
            raise Internal(masked_text(record.id)) from error
        finally:
            self._metrics.in_flight.dec()
            self._finish(record)

    def _versions_label(self, record: RequestRecord) -> str:
        label = ",".join(f"{stage}={version}" for stage, version in record.versions.items())
        if label not in self._version_sets:
            if len(self._version_sets) >= MAX_VERSION_SETS:
                return OTHER_VERSIONS
            self._version_sets.add(label)
        return label

    def _arm_label(self, record: RequestRecord) -> str:
        if record.arm not in self._arms:
            if len(self._arms) >= MAX_ARMS:
                return OTHER_ARMS
            self._arms.add(record.arm)
        return record.arm

    def _finish(self, record: RequestRecord) -> None:
        metrics = self._metrics
        seconds = time.monotonic() - record.started_s
        label = record.model if self._is_model(record.model) else UNKNOWN_MODEL
        versions, arm = self._versions_label(record), self._arm_label(record)
        metrics.requests.labels(label, record.protocol, record.outcome, record.code, arm, versions).inc()
        metrics.duration.labels(label, arm).observe(seconds)
        if record.outcome == "rejected":
            metrics.rejected.labels(label, record.reason).inc()
        if record.pieces:
            self._count_stream(record, label, arm)
        # what was sent of a stream was sent, however it ended
        if record.audio_s is not None and (record.outcome == "ok" or record.pieces):
            metrics.audio_seconds.labels(label).inc(record.audio_s)
        if record.outcome == "ok":
            if record.audio_s:
                metrics.real_time_factor.labels(label, arm).observe(seconds / record.audio_s)
            if record.text_chars is not None:
                metrics.text_chars.labels(label).inc(record.text_chars)
            for reason, count in record.dropped.items():
                metrics.dropped_chars.labels(label, reason).inc(count)
        if request_log.isEnabledFor(logging.INFO):
            request_log.info("%s", self._line(record, seconds))
        if record.ended is not None:
            self._tell(record.ended, record, seconds)

    @staticmethod
    def _tell(ended: Callable[[RequestRecord, float], None], record: RequestRecord, seconds: float) -> None:
        try:
            ended(record, seconds)
        except Exception:  # it would be answered instead of what the request was answered
            log.exception("request %s was served, but not observed", record.id)

    def _count_stream(self, record: RequestRecord, label: str, arm: str) -> None:
        metrics = self._metrics
        metrics.pieces.labels(label).inc(record.pieces)
        metrics.underruns.labels(label).inc(record.underruns)
        if record.first_piece_s is not None:
            metrics.first_piece.labels(label, arm).observe(record.first_piece_s)
        for gap_s in record.gaps_s:
            metrics.piece_gap.labels(label).observe(gap_s)

    def _line(self, record: RequestRecord, seconds: float) -> str:
        entry: dict[str, object] = {
            "id": record.id,
            "model": record.model[:_MAX_LOGGED_CHARS],
            "protocol": record.protocol,
            "outcome": record.outcome,
            "code": record.code,
            "ms": round(seconds * 1000, 1),
        }
        if record.reason:
            entry["reason"] = record.reason
        if record.client_id:
            entry["client_id"] = record.client_id[:_MAX_LOGGED_CHARS]
        if record.text_chars is not None:
            entry["chars"] = record.text_chars
        if record.audio_s is not None:
            entry["audio_ms"] = round(record.audio_s * 1000)
        if record.first_piece_s is not None:
            entry["first_piece_ms"] = round(record.first_piece_s * 1000, 1)
            entry["pieces"] = record.pieces
            entry["underruns"] = record.underruns
        if record.dropped:
            entry["dropped"] = record.dropped
        if self._log_text and record.text is not None:
            entry["text"] = record.text
        return json.dumps(entry)
