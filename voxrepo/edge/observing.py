"""Writes down what requests of voices under a rollout were like, for the controller. One thread, off the event loop.

Requests are lines in ``observations/<worker>-<pid>-<number>.jsonl``. A file is written to for :data:`ROTATE_S` from its
first line at most; one that was last changed longer ago than that is complete and may be removed by its reader. Pairs
are files in ``pairs/``, their JSON last. Nothing here may hurt a request: what there is no room for, in memory or on
the disk, is dropped and counted.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import wave
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from voxrepo.edge.seen import Ended, Samples, joined
from voxrepo.rollout.plan import PairSeen
from voxrepo_contract.yamlfile import write_text_atomically

log = logging.getLogger(__name__)

WRITE_INTERVAL_S = 0.25
ROTATE_S = 10.0
ROTATE_BYTES = 4 << 20
KEPT_BYTES = 64 << 20
"""Of observations that nobody has read, of all workers; the oldest files are dropped beyond that."""
MAX_PAIRS = 200
MAX_PAIR_BYTES = 256 << 20
MAX_HELD_BYTES = 64 << 20
"""Of audio that waits to be measured; beyond, requests are written down without measures."""
MAX_HELD = 20_000
"""Requests that wait to be written down."""
ORPHAN_S = 600.0
"""Age after which audio of a pair without its JSON was left by a process that has ended."""


@dataclass(frozen=True)
class Pair:
    """A request spoken by two arms.

    Attributes:
        seen: what its JSON says.
        audio: INT16 by arm, of those that have any.
        sample_rate_hz: of it.
    """

    seen: PairSeen
    audio: dict[str, list[Samples]]
    sample_rate_hz: int


class Observer:
    """The thread and its files.

    Args:
        folder: of this server; see :class:`voxrepo.rollout.plan.RolloutFolder`.
        worker: number of this process among those of the server.
        dropped: told what was dropped (``request``, ``measures``, ``file``, ``pair``) and how many.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        folder: Path,
        worker: int,
        dropped: Callable[[str, int], None] = lambda what, count: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._observations = folder / "observations"
        self._pairs = folder / "pairs"
        self._prefix = f"{worker}-{os.getpid()}"
        self._dropped = dropped
        self._clock = clock
        self._ended: deque[Ended] = deque()
        self._held_bytes = 0
        self._waiting_pairs: deque[Pair] = deque()
        self._lock = threading.Lock()
        self._number = 0
        self._file: Path | None = None
        self._file_bytes = 0
        self._begun_s = 0.0
        self._fault = ""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what is there, then end."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    # ---- from the event loop

    def put(self, ended: Ended) -> None:
        """Write down a request, later. Never waits."""
        if len(self._ended) >= MAX_HELD:
            self._dropped("request", 1)
            return
        size = ended.audio_bytes
        with self._lock:
            has_room = self._held_bytes + size <= MAX_HELD_BYTES
            if has_room:
                self._held_bytes += size
        if not has_room:
            self._dropped("measures", 1)
            ended = Ended(ended.facts, [], ended.sample_rate_hz)
        self._ended.append(ended)

    def put_pair(self, pair: Pair) -> None:
        """Write a pair, later. There is one copy at a time, so that no more than a few ever wait."""
        self._waiting_pairs.append(pair)

    # ---- in the thread

    def _run(self) -> None:
        while not self._stopped.wait(WRITE_INTERVAL_S):
            self.write()
        self.write()

    def write(self) -> None:
        """Write all that waits. The thread does so by itself."""
        try:
            self._write_requests()
            while self._waiting_pairs:
                self._write_pair(self._waiting_pairs.popleft())
        except Exception:
            log.exception("observations cannot be written")

    def _write_requests(self) -> None:
        lines: list[str] = []
        while self._ended:
            ended = self._ended.popleft()
            with self._lock:
                self._held_bytes -= ended.audio_bytes
            try:
                lines.append(ended.measured().model_dump_json(exclude_none=True))
            except ValueError:
                log.exception("a request of %s cannot be written down", ended.facts.get("voice"))
                self._dropped("request", 1)
        if not lines:
            return
        # in parts, so that no file grows beyond its size by much
        for first in range(0, len(lines), 1000):
            part = lines[first : first + 1000]
            try:
                self._append("".join(line + "\n" for line in part).encode())
            except OSError as error:
                self._complain(error)
                self._dropped("request", len(part))

    def _append(self, text: bytes) -> None:
        now_s = self._clock()
        if self._file is None or self._file_bytes + len(text) > ROTATE_BYTES or now_s - self._begun_s >= ROTATE_S:
            self._observations.mkdir(parents=True, exist_ok=True)
            self._make_room()
            self._number += 1
            self._file = self._observations / f"{self._prefix}-{self._number}.jsonl"
            self._file_bytes, self._begun_s = 0, now_s
        try:
            with self._file.open("ab", buffering=0) as stream:
                written = stream.write(text)
                if written != len(text):
                    # a full disk: half a line would be taken for a broken one
                    stream.truncate(self._file_bytes)
                    raise OSError(28, "No space left on device")
        except OSError:
            self._file = None
            raise
        self._file_bytes += len(text)
        self._fault = ""

    def _make_room(self) -> None:
        files = []
        for file in self._observations.glob("*.jsonl"):
            with suppress(FileNotFoundError):  # its reader was faster
                status = file.stat()
                files.append((status.st_mtime_ns, status.st_size, file))
        kept = sum(size for _, size, _ in files)
        for _, size, file in sorted(files, key=lambda entry: entry[0]):
            if kept + ROTATE_BYTES <= KEPT_BYTES:
                break
            file.unlink(missing_ok=True)
            self._dropped("file", 1)
            kept -= size

    def _write_pair(self, pair: Pair) -> None:
        names = [self._pairs / f"{pair.seen.id}.{arm}.wav" for arm in pair.audio]
        try:
            self._pairs.mkdir(parents=True, exist_ok=True)
            if not self._has_room_for_pair():
                self._dropped("pair", 1)
                return
            for file, audio in zip(names, pair.audio.values(), strict=True):
                with wave.open(str(file), "wb") as stream:
                    stream.setnchannels(1)
                    stream.setsampwidth(2)
                    stream.setframerate(pair.sample_rate_hz)
                    stream.writeframes(joined(audio).astype("<i2", copy=False).tobytes())
            write_text_atomically(self._pairs / f"{pair.seen.id}.json", pair.seen.model_dump_json(indent=1))
        except (OSError, wave.Error) as error:
            for file in names:
                with suppress(OSError):
                    file.unlink(missing_ok=True)
            self._complain(error)
            self._dropped("pair", 1)

    def _has_room_for_pair(self) -> bool:
        pairs, held = 0, 0
        waiting = {entry.name: entry for entry in os.scandir(self._pairs)}
        for name, entry in waiting.items():
            with suppress(FileNotFoundError):
                status = entry.stat()
                identity = name.partition(".")[0]
                is_orphan = name.endswith(".wav") and f"{identity}.json" not in waiting
                if is_orphan and self._clock() - status.st_mtime > ORPHAN_S:
                    Path(entry.path).unlink(missing_ok=True)
                    continue
                pairs += name.endswith(".json")
                held += status.st_size
        return pairs < MAX_PAIRS and held < MAX_PAIR_BYTES

    def _complain(self, error: Exception) -> None:
        said = f"{type(error).__name__}: {error}"
        if said != self._fault:
            self._fault = said
            log.error("observations of a rollout cannot be written: %s", said)
