"""Takes over what the edge processes have written down of requests, each line once, whatever ends in between.

How far a file has been read is saved in the same transaction as what was read of it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from voxrepo.rollout.observed import Observed
from voxrepo.rollout.plan import RequestSeen, RolloutFolder

log = logging.getLogger(__name__)

READ_BYTES = 2 << 20
"""Of one file at a time; some eight thousand requests."""
COMPLETE_S = 15.0
"""Age of the last change after which nothing more is written to a file: the edge writes to one for 10 s."""

_BEGINNING_BYTES = 4096


class Inbox:
    """Files ``replicas/*/observations/*.jsonl``; those that are complete and read are removed.

    Args:
        folder: of the rollouts.
        observed: takes the requests.
        clock: seconds since the epoch.
    """

    def __init__(self, folder: RolloutFolder, observed: Observed, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._observed = observed
        self._clock = clock
        self._sources: dict[Path, tuple[int, str]] = {}

    def take(self) -> int:
        """Look at all files once, in parts.

        Returns:
            how many requests were taken over.

        Raises:
            ConfigError: the database cannot be written.
            Unavailable: it is locked.
        """
        files = sorted(self._folder.replicas.glob("*/observations/*.jsonl"))
        # nothing of it is remembered: another controller may have led, and read on, since the last look
        offsets = self._observed.offsets() if files else {}
        return sum(self._take(file, offsets) for file in files)

    def forget_lost(self) -> None:
        """Forget how far files were read that are gone: a controller ended between removing and forgetting them."""
        there = set()
        for file in self._folder.replicas.glob("*/observations/*.jsonl"):
            with suppress(OSError):
                there.add(self._source(file, file.stat()))
        lost = [source for source in self._observed.offsets() if source not in there]
        if lost:
            self._observed.forget_sources(lost)

    def _source(self, file: Path, facts: os.stat_result) -> str:
        """Name of a file that no later file of the same path has, and that a copy of the whole folder keeps.

        Process numbers come again, and numbers of files differ on some file systems after each mount: it is the
        beginning of the first line, which never changes, that tells files apart.
        """
        known = self._sources.get(file)
        if known is not None and known[0] == facts.st_ino:
            return known[1]
        with file.open("rb") as stream:
            beginning = stream.read(_BEGINNING_BYTES).split(b"\n", 1)[0]
        source = f"{file.relative_to(self._folder.path)}#{hashlib.blake2b(beginning, digest_size=8).hexdigest()}"
        if len(beginning) < facts.st_size:  # else more of the line may come
            self._sources[file] = facts.st_ino, source
        return source

    def _take(self, file: Path, offsets: Mapping[str, int]) -> int:
        try:
            facts = file.stat()
            source = self._source(file, facts)
            offset = offsets.get(source, 0)
            is_complete = self._clock() - facts.st_mtime > COMPLETE_S
            if facts.st_size <= offset:
                if is_complete:
                    self._remove(file, source)
                return 0
            with file.open("rb") as stream:
                stream.seek(offset)
                text = stream.read(READ_BYTES)
        except FileNotFoundError:  # the edge makes room by dropping the oldest
            return 0
        except OSError as error:
            log.error("%s cannot be read: %s", file, error)
            return 0
        end = text.rfind(b"\n") + 1
        if not end:
            if len(text) < READ_BYTES and not is_complete:
                return 0  # half a line; the rest comes
            end = len(text)
        return self._observed.add_requests(
            self._parsed(file, text[:end]), source=source, begin=offset, offset=offset + end
        )

    def _remove(self, file: Path, source: str) -> None:
        file.unlink(missing_ok=True)
        self._observed.forget_sources([source])
        self._sources.pop(file, None)

    def _parsed(self, file: Path, text: bytes) -> list[RequestSeen]:
        seen, bad, first = [], 0, ""
        for line in text.splitlines():
            try:
                seen.append(RequestSeen.model_validate_json(line))
            except ValidationError as error:
                bad += 1
                first = first or str(error.errors(include_url=False)[0]["msg"])
        if bad:
            log.error("%s: %d lines are no observations and were passed over: %s", file, bad, first)
        return seen
