"""Requests spoken again by another arm, for comparison. Nobody waits for a copy, and no copy makes anybody wait long.

A copy begins after the original was answered, one at a time, and only while lines are short. It is the last in its
line until it has waited for :data:`~voxrepo.edge.gates.MAX_AHEAD_S`. It is one call of the other arm's ensemble with
the same text, seed and parameters, also where the original was a stream, since both give the same samples.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge.assigning import Assignment
from voxrepo.edge.engine_client import CallerTimedOut, CallReport, EngineCallFailed, ModelReloaded
from voxrepo.edge.engine_errors import engine_error
from voxrepo.edge.gates import NOW
from voxrepo.edge.in_use import InUse
from voxrepo.edge.lines import Need
from voxrepo.edge.observing import Observer, Pair
from voxrepo.edge.routing import arm_entry, copy_arm
from voxrepo.edge.seen import Samples, Seen, ended
from voxrepo.edge.table import EdgeTable, VoiceEntry
from voxrepo.metrics.accounting import RequestRecord, outcome_of
from voxrepo.rollout.plan import PairSeen
from voxrepo.rollout.route import STABLE_ARM
from voxrepo_contract.errors import DeadlineExceeded, Unavailable, VoxrepoError
from voxrepo_contract.tensors import AUDIO

log = logging.getLogger(__name__)

PROTOCOL = "copy"
PAUSE_S = 0.02
"""Before a copy begins, so that the original's answer is on its way."""
LIMIT_S = 60.0
"""For a copy, its time in line included; what takes longer has timed out."""
MAX_WAIT_S = 2.0
"""Predicted wait above which lines are too long for a copy."""
NOT_URGENT_S = 3600.0


class _Engine(Protocol):
    async def infer(
        self,
        request: Any,
        deadline_s: float | None,
        *,
        need: Need = NOW,
        told: Callable[[CallReport], None] = lambda report: None,
    ) -> Any: ...


@dataclass(frozen=True)
class CopyCounts:
    """Where copies are counted.

    Attributes:
        made: told voice, arm and outcome.
        dropped: told voice and reason.
    """

    made: Callable[[str, str, str], None] = lambda voice, arm, outcome: None
    dropped: Callable[[str, str], None] = lambda voice, reason: None


NOT_COUNTED = CopyCounts()


class Copies:
    """Makes copies for one edge process.

    Args:
        engine: client of the engine.
        table: the current one.
        in_use: counts what copies use.
        wait_s: predicted wait of a request in the line of a row.
        observer: takes what was seen.
        longest_chars: of texts that are copied: beyond, one call would hold a place for too long.
        counts: where they are counted.
    """

    def __init__(
        self,
        engine: _Engine,
        table: Callable[[], EdgeTable],
        in_use: InUse,
        wait_s: Callable[[VoiceEntry], float],
        observer: Observer,
        longest_chars: int,
        counts: CopyCounts = NOT_COUNTED,
    ) -> None:
        self._engine = engine
        self._table = table
        self._in_use = in_use
        self._wait_s = wait_s
        self._observer = observer
        self._longest_chars = longest_chars
        self._counts = counts
        self._task: asyncio.Task[None] | None = None

    def offer(self, seen: Seen, record: RequestRecord, seconds: float) -> None:
        """A request has been answered; copy it if it is among those that are.

        Args:
            seen: the request.
            record: its account.
            seconds: that it took.
        """
        assignment, call = seen.assignment, seen.call
        if assignment.route is None or assignment.pinned or assignment.opening is not None:
            return
        if call is None or record.outcome != "ok" or not seen.audio:
            return
        voice = assignment.entry.base
        arm = copy_arm(assignment.route, assignment.arm, record.id)
        if arm is None:
            return
        entry = arm_entry(voice, arm, self._table().voices)
        reason = self._why_not(entry, len(call.text))
        if entry is None or reason:
            self._counts.dropped(voice, reason)
            return
        self._task = asyncio.create_task(self._make(seen, record, seconds, entry))

    def _why_not(self, entry: VoiceEntry | None, chars: int) -> str:
        if self._task is not None and not self._task.done():
            return "busy"
        if entry is None:
            return "gone"
        if chars > self._longest_chars:
            return "long"
        table = self._table()
        if entry.base in table.held or entry.base in table.draining:
            return "recovery"
        return "queue" if self._wait_s(entry) > MAX_WAIT_S else ""

    async def _make(self, seen: Seen, record: RequestRecord, seconds: float, entry: VoiceEntry) -> None:
        try:
            with self._in_use.using(entry):
                await asyncio.sleep(PAUSE_S)
                await self._copy(seen, record, seconds, entry)
        except Exception:
            log.exception("a copy of request %s failed", record.id)
            self._counts.dropped(entry.base, "fault")

    async def _copy(self, seen: Seen, record: RequestRecord, seconds: float, entry: VoiceEntry) -> None:
        call = seen.call
        assert call is not None
        copied = Seen(Assignment(entry, seen.assignment.route), streamed=False, call=call)
        own = RequestRecord(entry.base, PROTOCOL)
        own.text_chars, own.arm, own.versions = record.text_chars, entry.arm, entry.versions
        fault, waited_s = "", 0.0

        def told(report: CallReport) -> None:
            nonlocal waited_s
            waited_s = report.waited_s
            own.engine_took(report.inside_s)

        request = pb.ModelInferRequest()
        request.CopyFrom(call.request)
        request.model_name, request.id = entry.ensemble, own.id
        del request.outputs[:]
        own.limit(LIMIT_S)
        try:
            response = await self._engine.infer(
                request, own.deadline_s, need=Need(own.started_s + NOT_URGENT_S, begins=False), told=told
            )
        except Unavailable:  # no room in the line
            self._counts.dropped(entry.base, "queue")
            return
        except CallerTimedOut:
            fault = f"no answer within {LIMIT_S:g} s"
            own.outcome = outcome_of(DeadlineExceeded(fault))
        except EngineCallFailed as failure:
            if (
                isinstance(failure, ModelReloaded)
                or not failure.from_engine
                or {entry.base, entry.name} & set(self._table().held)
            ):
                self._counts.dropped(entry.base, "recovery")
                return
            if self._table().voices.get(entry.name) != entry:
                self._counts.dropped(entry.base, "gone")
                return
            fault = f"{failure.code}: {failure.text}"[:500]
            own.outcome = outcome_of(_as_client(failure, own.id))
        else:
            copied.audio = _audio_of(response)
            own.audio_s = sum(map(_samples, copied.audio)) / entry.sample_rate_hz
        # as if there were no line: copies wait the longest in it, which says nothing of the arm
        took_s = max(time.monotonic() - own.started_s - waited_s, 0.0)
        self._counts.made(entry.base, entry.arm, own.outcome)
        self._observer.put(ended(copied, own, took_s, copy_of=seen.assignment.arm))
        self._observer.put_pair(_pair(seen, record, None if seen.streamed else seconds, copied, took_s, fault))

    async def close(self) -> None:
        """Give up the copy that is being made."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def _as_client(failure: EngineCallFailed, request_id: str) -> VoxrepoError:
    return engine_error(failure.code, failure.text, from_engine=failure.from_engine, request_id=request_id)


def _audio_of(response: Any) -> list[Samples]:
    names = [output.name for output in response.outputs]
    if AUDIO.name not in names or len(response.raw_output_contents) != len(names):
        return []
    return [response.raw_output_contents[names.index(AUDIO.name)]]


def _samples(part: Samples) -> int:
    return len(part) // 2 if isinstance(part, bytes) else part.size


def _pair(seen: Seen, record: RequestRecord, seconds: float | None, copied: Seen, took_s: float, fault: str) -> Pair:
    """Original and copy side by side; ``seconds`` of the original, None where they say nothing."""
    assignment, call = seen.assignment, seen.call
    assert call is not None
    assert assignment.route is not None
    judged = assignment.arm if assignment.arm != STABLE_ARM else copied.assignment.arm
    taken: dict[str, float | None] = {assignment.arm: seconds, copied.assignment.arm: None if fault else took_s}
    audio = {assignment.arm: seen.audio}
    if copied.audio:
        audio[copied.assignment.arm] = copied.audio
    facts = PairSeen(
        id=record.id,
        at=time.time(),
        rollout=assignment.route.rollout,
        voice=assignment.entry.base,
        arm=judged,
        text=call.text,
        language=assignment.entry.language,
        seed=call.seed,
        speed=call.speed,
        speaker=call.speaker or assignment.entry.speakers[0],
        latency_s=taken[judged],
        stable_latency_s=taken[STABLE_ARM],
        fault=fault or ("" if copied.audio else "the answer has no audio"),
    )
    return Pair(facts, audio, assignment.entry.sample_rate_hz)
