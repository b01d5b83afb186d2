"""Streams, events and the work queued on them. Work is done when somebody waits for it, so that whatever a program
does too early shows.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from acl.emulation import codes
from acl.emulation.errors import CodedError
from acl.emulation.faults import DEVICE_LATENCY, DEVICE_TASK
from acl.emulation.handles import Handled
from acl.emulation.memory import Span
from acl.emulation.state import ledger

if TYPE_CHECKING:
    from acl.emulation.devices import Context

FOR_EVER: Final = -1

Publish = Callable[[], None]
"""Makes the results of a piece of work visible in memory."""


class TaskFault(CodedError):
    """A piece of work failed on the device."""


@dataclass(eq=False)
class Task:
    """A piece of work.

    Attributes:
        prepare: does it and gives what publishes its results; raises TaskFault.
        reads: memory it reads.
        writes: memory it writes.
        uses: handles that must live until it is done.
        model: id of the model it runs, 0 if none.
        duration_s: device time.
    """

    what: str
    prepare: Callable[[], Publish]
    reads: Sequence[Span] = ()
    writes: Sequence[Span] = ()
    uses: Sequence[int] = ()
    model: int = 0
    duration_s: float = 0.0
    stream: Stream = field(init=False)
    number: int = field(init=False, default=0)
    finish_s: float = field(init=False, default=0.0)
    publish: Publish | None = field(init=False, default=None)


pending: list[Task] = []
"""All work queued and not waited for, oldest first."""


@dataclass(eq=False)
class Stream(Handled):
    """A queue of work in order.

    Attributes:
        context: where it was made.
        tasks: not done yet.
        done_number: of the last task done.
        finish_s: ``time.monotonic`` at which all its work is done by the timing model.
        follows: for other streams, the number of the task up to which an event orders this one behind them.
    """

    context: Context
    tasks: deque[Task] = field(default_factory=deque)
    done_number: int = 0
    last_number: int = 0
    finish_s: float = 0.0
    follows: dict[int, int] = field(default_factory=dict)
    _draining: threading.RLock = field(default_factory=threading.RLock)

    what = "a stream"
    call = "acl.rt.destroy_stream"

    def submit(self, task: Task) -> None:
        """Queue work. The device's cores do one piece after the other, whatever stream it comes from."""
        with ledger.lock:
            device = self.context.device
            latency = ledger.faults.take(DEVICE_LATENCY) if task.model and ledger.faults.look() else None
            if task.duration_s or latency or self.finish_s:
                start_s = max(time.monotonic(), self.finish_s)
                if task.duration_s:
                    start_s = max(start_s, device.busy_until_s)
                    device.busy_until_s = start_s + task.duration_s
                self.finish_s = start_s + task.duration_s + (latency.amount / 1e3 if latency else 0.0)
                task.finish_s = self.finish_s
            task.stream = self
            self.last_number += 1
            task.number = self.last_number
            self.tasks.append(task)
            pending.append(task)

    def drain(self, timeout_ms: int = FOR_EVER, up_to: int | None = None) -> int:
        """Do the queued work, up to a task number, and wait for the device time it takes.

        Returns:
            0, the code of the work that failed, or 507046 if ``timeout_ms`` passes first.
        """
        deadline_s = None if timeout_ms < 0 else time.monotonic() + timeout_ms / 1e3
        if not self._draining.acquire(timeout=-1 if deadline_s is None else max(0.0, timeout_ms / 1e3)):
            return _timed_out()
        try:
            while (task := self._next(up_to)) is not None:
                if not self._prepare_and_sleep(task, deadline_s):
                    return _timed_out()
                code = self._finish(task)
                if code:
                    return code
            return codes.SUCCESS
        except TaskFault as fault:
            self.drop()
            with ledger.lock:
                self.context.fault(fault.code)
            return ledger.fail(fault.code, fault.text)
        finally:
            self._draining.release()

    def drop(self) -> None:
        """Forget the queued work."""
        with ledger.lock:
            for task in self.tasks:
                if task in pending:
                    pending.remove(task)
            self.tasks.clear()
            self.done_number = self.last_number
            self.finish_s = 0.0

    def _next(self, up_to: int | None) -> Task | None:
        with ledger.lock:
            if not self.tasks or (up_to is not None and self.tasks[0].number > up_to):
                return None
            return self.tasks[0]

    def _prepare_and_sleep(self, task: Task, deadline_s: float | None) -> bool:
        """Do the work and wait for its device time; ``False`` if the deadline comes first. Other threads run on."""
        if deadline_s is not None and task.finish_s > deadline_s:
            time.sleep(max(0.0, deadline_s - time.monotonic()))
            return False
        self._prepare(task)
        rest_s = task.finish_s - time.monotonic() if task.finish_s else 0.0
        if rest_s > 0:
            time.sleep(rest_s)
        return True

    def _prepare(self, task: Task) -> None:
        if task.publish is not None:
            return
        if task.model and ledger.faults.look():
            fault = ledger.faults.take(DEVICE_TASK)
            if fault:
                raise TaskFault(fault.code, fault.text)
        task.publish = task.prepare()

    def _finish(self, task: Task) -> int:
        assert task.publish is not None
        with ledger.lock:
            if not self.tasks or self.tasks[0] is not task:
                # dropped meanwhile by another thread, with the context
                return codes.RT_TASK_ABORT
            task.publish()
            self.tasks.popleft()
            pending.remove(task)
            self.done_number = task.number
        return codes.SUCCESS


@dataclass(eq=False)
class Event(Handled):
    """A mark in a stream."""

    context: Context
    stream: Stream | None = None
    number: int = 0
    done_s: float = 0.0

    what = "an event"
    call = "acl.rt.destroy_event"


def _timed_out() -> int:
    return ledger.fail(codes.RT_STREAM_SYNC_TIMEOUT, "EE1002: waiting for the stream took longer than allowed")


def _ordered(stream: Stream | None, task: Task) -> bool:
    if stream is None:
        return False
    return task.stream is stream or stream.follows.get(task.stream.handle, 0) >= task.number


def check_hazards(stream: Stream | None, reads: Sequence[Span], writes: Sequence[Span]) -> None:
    """Record a violation if this access races with queued work that nothing orders before it."""
    for task in tuple(pending):
        if _ordered(stream, task):
            continue
        for mine, theirs, verb in (
            (writes, task.reads, "written, which work reads"),
            (writes, task.writes, "written, which work writes"),
            (reads, task.writes, "read, which work writes"),
        ):
            clash = next((span for span in mine if any(span.overlaps(other) for other in theirs)), None)
            if clash is not None:
                ledger.report.violation(
                    f"{clash.name} are {verb} ({task.what}) that is not waited for; synchronise its stream first"
                )
                return


def in_use(handle: int) -> Task | None:
    """The queued work that needs this handle, if any."""
    return next((task for task in tuple(pending) if handle in task.uses), None)
