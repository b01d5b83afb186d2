"""Pairs of audio that the edge processes leave: measured one at a time beside the controller's other work.

A pair's files stay where they are until what was measured is saved; a controller that ends before that measures them
again, and one that ends after it finds the pair in the database.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from voxrepo.rollout.kept_audio import Kept, badness, to_keep
from voxrepo.rollout.observed import Observed, PairRecord
from voxrepo.rollout.pair_measures import PairMeasures
from voxrepo.rollout.plan import PairSeen, RolloutFolder, read_json
from voxrepo.rollout.route import STABLE_ARM
from voxrepo_contract.errors import ConfigError

log = logging.getLogger(__name__)

MAX_BACKLOG = 100
"""Pairs that wait to be measured; of more, the oldest are dropped: those to come tell as much."""
ORPHAN_S = 600.0
"""Age after which audio without its JSON was left by a process that has ended."""


@dataclass(frozen=True)
class _Work:
    file: Path
    seen: PairSeen
    audio: dict[str, Path]
    measures: Future[dict[str, float]]


class PairsDesk:
    """Takes pairs over.

    Args:
        folder: of the rollouts.
        observed: takes what was measured.
        wants_error_rates: whether a rollout has a gate on what a recogniser hears.
        measures: measures a pair.
        clock: seconds since the epoch.

    Attributes:
        dropped: pairs that were not measured.
    """

    def __init__(
        self,
        folder: RolloutFolder,
        observed: Observed,
        wants_error_rates: Callable[[str], bool] = lambda rollout: False,
        measures: PairMeasures | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._observed = observed
        self._wants_error_rates = wants_error_rates
        self._measures = measures or PairMeasures()
        self._clock = clock
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="measures")
        self._work: _Work | None = None
        self._kept: dict[str, dict[tuple[str, str], Kept]] = {}
        self.dropped = 0

    @property
    def fault(self) -> str:
        """Why error rates are not measured; empty if they are, or nobody asks for them."""
        return self._measures.fault

    def step(self) -> int:
        """Save what has been measured, and begin with the next pair.

        Returns:
            how many pairs were taken over.

        Raises:
            ConfigError: the database cannot be written.
            Unavailable: it is locked.
        """
        taken = 0
        if self._work is not None and self._work.measures.done():
            taken = self._finish(self._work)
            self._work = None
        if self._work is None:
            self._work = self._next()
        return taken

    def close(self) -> None:
        """Give up what is being measured; it is measured again by the next controller."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _next(self) -> _Work | None:
        for file in self._waiting():
            try:
                seen = read_json(file, PairSeen)
            except ConfigError as error:
                log.error("a pair is passed over: %s", error)
                seen = None
            if seen is None or seen.id != file.stem:
                self._remove(file)
                continue
            audio = {arm: file.with_name(f"{seen.id}.{arm}.wav") for arm in (STABLE_ARM, seen.arm)}
            audio = {arm: wav for arm, wav in audio.items() if wav.is_file()}
            wanted = self._wants_error_rates(seen.rollout)
            return _Work(
                file, seen, audio, self._pool.submit(self._measures.measure, seen, audio, with_error_rates=wanted)
            )
        return None

    def _waiting(self) -> list[Path]:
        """JSON files of pairs, the oldest first."""
        found = []
        for file in self._folder.replicas.glob("*/pairs/*.json"):
            with contextlib.suppress(FileNotFoundError):
                found.append((file.stat().st_mtime_ns, file))
        files = [file for _, file in sorted(found)]
        for file in files[: max(len(files) - MAX_BACKLOG, 0)]:
            self._remove(file)
            self.dropped += 1
        return files[max(len(files) - MAX_BACKLOG, 0) :]

    def _finish(self, work: _Work) -> int:
        try:
            measures = work.measures.result()
        except Exception as error:  # what is wrong with the audio of one pair is no fault of the controller's
            log.error("the pair %s cannot be measured: %r", work.file, error)
            self._remove(work.file)
            self.dropped += 1
            return 0
        kept = self._kept_of(work.seen.rollout)
        this = Kept(work.seen.arm, work.seen.id, work.seen.at, badness(measures), sum(map(_size, work.audio.values())))
        key = (this.arm, this.id)
        stay = {(pair.arm, pair.id) for pair in to_keep([*kept.values(), this])}
        is_kept = key in stay and bool(work.audio)
        files = self._keep(work) if is_kept else {}
        taken = self._observed.add_pair(PairRecord(work.seen, measures, files))
        if is_kept and (taken or key in kept):
            kept[key] = this
            for gone in [each for each in kept if each not in stay]:
                self._let_go(work.seen.rollout, *gone)
        self._remove(work.file)
        return int(taken)

    # audio for the report

    def _kept_of(self, rollout: str) -> dict[tuple[str, str], Kept]:
        if rollout not in self._kept:
            self._kept[rollout] = {
                (pair.seen.arm, pair.seen.id): Kept(
                    pair.seen.arm,
                    pair.seen.id,
                    pair.seen.at,
                    badness(pair.measures),
                    sum(_size(self._folder.path / file) for file in pair.files.values()),
                )
                for pair in self._observed.pairs(rollout)
                if pair.files
            }
        return self._kept[rollout]

    def _sample(self, rollout: str, id_: str, arm: str, of: str) -> Path:
        return self._folder.samples / rollout / f"{id_}.{arm}-{of}.wav"

    def _keep(self, work: _Work) -> dict[str, str]:
        seen, files = work.seen, {}
        for of, wav in work.audio.items():
            target = self._sample(seen.rollout, seen.id, seen.arm, of)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)
                try:
                    os.link(wav, target)
                except OSError:  # not on this file system
                    shutil.copyfile(wav, target)
            except OSError as error:
                log.error("audio of the pair %s cannot be kept: %s", seen.id, error)
                continue
            files[of] = str(target.relative_to(self._folder.path))
        return files

    def _let_go(self, rollout: str, arm: str, id_: str) -> None:
        self._observed.keep_files(rollout, arm, id_, {})
        self._kept[rollout].pop((arm, id_), None)
        for of in (STABLE_ARM, arm):
            with contextlib.suppress(OSError):
                self._sample(rollout, id_, arm, of).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove audio that belongs to nothing: what ended controllers and edge processes have left."""
        self._kept.clear()  # another controller may have kept more
        for folder in self._folder.samples.glob("*"):
            known = {
                self._folder.path / file for pair in self._observed.pairs(folder.name) for file in pair.files.values()
            }
            for file in folder.glob("*.wav"):
                if file not in known:
                    file.unlink(missing_ok=True)
        for file in self._folder.replicas.glob("*/pairs/*.wav"):
            with contextlib.suppress(FileNotFoundError):
                is_old = self._clock() - file.stat().st_mtime > ORPHAN_S
                if is_old and not file.with_name(f"{file.name.partition('.')[0]}.json").exists():
                    file.unlink()

    def _remove(self, file: Path) -> None:
        """The audio first: a JSON without it is passed over, audio without its JSON would stay."""
        for wav in file.parent.glob(f"{_escaped(file.stem)}.*.wav"):
            wav.unlink(missing_ok=True)
        file.unlink(missing_ok=True)


def _escaped(name: str) -> str:
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in name)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
