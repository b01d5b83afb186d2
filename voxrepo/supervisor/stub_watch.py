"""Noticing that a stub has died. The engine never restarts one, and its model stays "ready".

A stub is a child of the engine; its command line, as Triton's Python backend writes it, names the instance. The command
line of a process that has ended is empty, so stubs are remembered while they live.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from voxrepo.supervisor.memory_watch import held_bytes
from voxrepo_contract.stub_identity import version_of

log = logging.getLogger(__name__)

STUB_NAME = "triton_python_backend_stub"
SEARCH_INTERVAL_S = 3.0
STOPPED_LIMIT_S = 5.0
"""A stub that somebody stopped (SIGSTOP, a debugger) is ended after this: the engine would wait for it for ever."""

_REGION_WORD = 2
_INSTANCE_WORD = 8
_EXIT_CODE_WORD = 49
"""Of ``/proc/<pid>/stat`` after the name, from 0; field 52 of proc_pid_stat(5). A status as ``wait`` gives it."""
_INSTANCE_NUMBERS = re.compile(r"_\d+_\d+\Z")


@dataclass(frozen=True)
class Stub:
    """One stub that was seen.

    Attributes:
        pid: process id.
        started_at: seconds since the epoch; tells it from a later process of the same id.
        model: whose instance it runs.
        has_ended: whether it is a zombie; it may also be missing altogether.
        instance: of the model; empty if that is not known.
        version: of the model; ``None`` if it has not said so yet. Versions that are served together have instances of
            the same names.
    """

    pid: int
    started_at: float
    model: str
    has_ended: bool = False
    instance: str = ""
    version: int | None = None

    def replaces(self, other: Stub) -> bool:
        """Whether it was started, and lives, for the same instance after another one."""
        return (
            self.instance == other.instance != ""
            and self.version == other.version
            and self.started_at > other.started_at
            and not self.has_ended
        )


def instance_of(words: Sequence[str]) -> str:
    """The model instance of a stub by its command line."""
    return words[_INSTANCE_WORD] if len(words) > _INSTANCE_WORD else ""


def model_of(words: Sequence[str]) -> str | None:
    """The model of a stub by its command line, ``None`` if it is no stub's of a model instance.

    The ninth word is the instance, ``<model>_<group>_<number>``; a stub that only completes configurations has another.
    """
    if len(words) <= _INSTANCE_WORD or not words[0].endswith("/" + STUB_NAME):
        return None
    model, found = _INSTANCE_NUMBERS.subn("", words[_INSTANCE_WORD])
    return model if found else None


def region_of(words: Sequence[str]) -> str | None:
    """The shared memory region of a stub by its command line."""
    return words[_REGION_WORD] if model_of(words) is not None else None


class StubRegister:
    """Pure: which stubs have died, from what is seen of them one time after the other.

    The engine never starts a stub in the place of one that died. But it loads a model again of its own accord with an
    ensemble that uses it, if a file of the model was touched meanwhile: a new link to it or other rights are enough.
    The end of a stub that has a successor is therefore no death.
    """

    def __init__(self) -> None:
        self._living: dict[int, Stub] = {}
        self._retired: set[tuple[int, float]] = set()

    def observe(self, seen: Iterable[Stub], watched: Collection[str]) -> list[Stub]:
        """Take in what is seen now.

        Args:
            seen: all stubs of the engine.
            watched: models whose stubs count.

        Returns:
            stubs that have ended since the last time; each is told once.
        """
        now = {(stub.pid, stub.started_at): stub for stub in seen}
        self._retired &= set(now)
        ended = []
        for stub in self._living.values():
            found = now.get((stub.pid, stub.started_at))
            if found is None or found.has_ended:
                ended.append(stub if found is None else replace(stub, version=found.version))
        self._living = {
            stub.pid: stub
            for key, stub in now.items()
            if not stub.has_ended and key not in self._retired and stub.model in watched
        }
        return [
            stub
            for stub in ended
            if stub.model in watched and not any(newer.replaces(stub) for newer in self._living.values())
        ]

    def retire(self, models: Collection[str], versions: Collection[int] | None = None) -> list[Stub]:
        """Expect the end of the stubs of these models, since they are unloaded.

        Args:
            models: whose.
            versions: of them; all if not given.

        Returns:
            those that live.
        """
        old = [
            stub
            for stub in self._living.values()
            if stub.model in models and (versions is None or stub.version in versions)
        ]
        self._retired |= {(stub.pid, stub.started_at) for stub in old}
        self._living = {pid: stub for pid, stub in self._living.items() if stub not in old}
        return old


class StubWatch:
    """Looks after the stubs of one engine.

    Args:
        engine_pid: of the engine.
        identities: folder in which stubs say which version they run.
    """

    def __init__(self, engine_pid: int, identities: Path | None = None) -> None:
        self._engine_pid = engine_pid
        self._identities = identities
        self._known: dict[int, Stub] = {}
        self._ended: set[int] = set()
        self._next_search_s = float("-inf")
        self._stopped_since_s: dict[int, float] = {}
        self.register = StubRegister()

    def look(self, watched: Collection[str], now_s: float, *, search: bool = False) -> list[Stub]:
        """Stubs that have ended since the last look; nothing if the engine itself has.

        Args:
            watched: models whose stubs count.
            now_s: time on the clock of ``time.monotonic``.
            search: also look for new ones now. That is done every few seconds anyway; it costs a walk over all
                processes of the machine.
        """
        searches = search or now_s >= self._next_search_s
        if searches:
            self._next_search_s = now_s + SEARCH_INTERVAL_S
            if not self._search():
                return []
        count = len(self._known)
        seen = list(self._living(now_s))
        ended = {stub.pid for stub in seen if stub.has_ended}
        is_news = len(seen) < count or not ended <= self._ended
        self._ended = ended
        if is_news and not searches:
            # whoever has ended may have been replaced since the last search
            if not self._search():
                return []
            seen = list(self._living(now_s))
        return self.register.observe(seen, watched)

    def search_soon(self) -> None:
        """Look for new ones at the next look."""
        self._next_search_s = float("-inf")

    def _search(self) -> bool:
        try:
            children = psutil.Process(self._engine_pid).children()
        except psutil.Error:
            return False
        for child in children:
            with suppress(psutil.Error):
                known = self._known.get(child.pid)
                if known is None or known.started_at != child.create_time():
                    words = child.cmdline()
                    model = model_of(words)
                    if model is not None:  # else it was forked just now, or is no stub
                        instance = instance_of(words)
                        self._known[child.pid] = Stub(child.pid, child.create_time(), model, instance=instance)
        return True

    def _living(self, now_s: float) -> Iterable[Stub]:
        for pid, stub in list(self._known.items()):
            try:
                process = psutil.Process(pid)
                if process.create_time() != stub.started_at:
                    raise psutil.NoSuchProcess(pid)
                status = process.status()
                ended = status == psutil.STATUS_ZOMBIE
                if status not in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP):
                    self._stopped_since_s.pop(pid, None)
                elif now_s - self._stopped_since_s.setdefault(pid, now_s) >= STOPPED_LIMIT_S:
                    log.warning("a stub of %s was stopped for %g s; it is ended", stub.model, STOPPED_LIMIT_S)
                    process.kill()
            except psutil.NoSuchProcess:
                del self._known[pid]
                self._stopped_since_s.pop(pid, None)
                continue
            if stub.version is None and self._identities is not None:
                self._known[pid] = replace(stub, version=version_of(self._identities, pid, stub.model))
            yield replace(self._known[pid], has_ended=ended)

    def held_bytes(self, model: str, version: int) -> int:
        """Memory of the stubs of one version of a model; 0 if none is known."""
        return sum(
            held_bytes(stub.pid) for stub in self._known.values() if (stub.model, stub.version) == (model, version)
        )


def kill(stubs: Iterable[Stub]) -> list[Stub]:
    """Kill those that still live.

    Returns:
        the ones that were killed.
    """
    killed = []
    for stub in stubs:
        with suppress(psutil.Error):
            process = psutil.Process(stub.pid)
            if process.create_time() == stub.started_at and process.status() != psutil.STATUS_ZOMBIE:
                process.kill()
                killed.append(stub)
    return killed


def cause_of_end(stub: Stub) -> str:
    """``signal 9`` or ``exit code 1`` of a stub that has ended; empty if the engine has forgotten it already."""
    try:
        facts = Path(f"/proc/{stub.pid}/stat").read_bytes().rsplit(b")", 1)[1].split()
        status = int(facts[_EXIT_CODE_WORD])
    except (OSError, ValueError, IndexError):
        return ""
    if facts[0] != b"Z":  # another process has its number
        return ""
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit code {os.WEXITSTATUS(status)}"
