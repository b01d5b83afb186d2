"""Observations and pairs of rollouts, in the same database: bounded, and read as samples for the gates."""

from __future__ import annotations

import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from voxrepo.rollout.database import Database
from voxrepo.rollout.metric import COUNTED_OUTCOMES, FAILED_OUTCOMES
from voxrepo.rollout.plan import PairSeen, RequestSeen
from voxrepo.rollout.route import STABLE_ARM
from voxrepo.rollout.samples import ArmSamples, column
from voxrepo.rollout.spec import ShadowPolicy, arms_of
from voxrepo.rollout.state import Rollout

MAX_ROWS = 50_000
"""Of each arm of a rollout, requests and pairs each; quantiles are known to a per mille with far fewer."""


@dataclass(frozen=True)
class PairRecord:
    """A compared pair.

    Attributes:
        seen: what the edge said of it.
        measures: by metric name; ``stable_<name>`` for the stable arm's own value.
        files: kept audio by arm, paths relative to the rollouts' folder; empty if it was not kept.
    """

    seen: PairSeen
    measures: dict[str, float]
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Total:
    """Requests of an arm in a minute; counted before anything is thinned.

    Attributes:
        arm: that served them.
        is_copy: whether they were copies for comparison.
        outcome: of all of them.
        minute: since the epoch.
        requests: how many.
        latency_s: sum.
        audio_s: sum.
    """

    arm: str
    is_copy: bool
    outcome: str
    minute: int
    requests: int
    latency_s: float
    audio_s: float


class Observed:
    """Reads and writes them.

    Args:
        database: of the store.
        max_rows: kept of each arm of a rollout.
    """

    def __init__(self, database: Database, max_rows: int = MAX_ROWS) -> None:
        self._database = database
        self._max_rows = max(max_rows, 2)

    def offsets(self) -> dict[str, int]:
        """Bytes that have been taken over of each file of which any have, and that is not forgotten."""
        rows = self._database.query("SELECT path, offset_bytes FROM sources")
        return {str(row["path"]): int(row["offset_bytes"]) for row in rows}

    def forget_sources(self, sources: Iterable[str]) -> None:
        """Forget files that are gone."""
        with self._database.transaction() as connection:
            connection.executemany("DELETE FROM sources WHERE path = ?", [(source,) for source in sources])

    def add_requests(self, seen: Sequence[RequestSeen], *, source: str = "", begin: int = 0, offset: int = 0) -> int:
        """Take requests over, and how far their file has been read, in one transaction.

        Nothing is taken if the file has been read to another place than ``begin``: by a controller that took the lease
        while this one was stopped.

        Args:
            seen: requests; those of rollouts that are not in the store are left out.
            source: file that they come from; empty for none.
            begin: bytes of it that were taken over before these.
            offset: likewise with these.

        Returns:
            how many were taken.
        """
        with self._database.transaction() as connection:
            row = connection.execute("SELECT offset_bytes FROM sources WHERE path = ?", (source,)).fetchone()
            if (0 if row is None else row["offset_bytes"]) != begin:
                return 0
            known = {row["id"] for row in connection.execute("SELECT id FROM rollouts")}
            kept = [request for request in seen if request.rollout in known]
            connection.executemany(
                "INSERT INTO observations (rollout, arm, is_copy, at, outcome, pinned, streamed, text_chars, latency_s,"
                " first_piece_s, underruns, audio_s, level_dbfs, peak_dbfs, clipped_ratio, silence_ratio, engine_s) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [_row(request) for request in kept],
            )
            _count(connection, kept)
            for rollout, arm in {(request.rollout, request.arm) for request in kept}:
                self._thin(connection, "observations", rollout, arm)
            if source:
                connection.execute(
                    "INSERT INTO sources (path, offset_bytes) VALUES (?, ?) "
                    "ON CONFLICT (path) DO UPDATE SET offset_bytes = excluded.offset_bytes",
                    (source, offset),
                )
        return len(kept)

    def add_pair(self, pair: PairRecord) -> bool:
        """Take a compared pair over; False if it is there already, or its rollout is not.

        Measures that are not numbers are left out.
        """
        seen = pair.seen
        measures = {name: value for name, value in pair.measures.items() if math.isfinite(value)}
        with self._database.transaction() as connection:
            if connection.execute("SELECT 1 FROM rollouts WHERE id = ?", (seen.rollout,)).fetchone() is None:
                return False
            cursor = connection.execute(
                "INSERT OR IGNORE INTO pairs (rollout, arm, id, at, seen, measures, files) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    seen.rollout,
                    seen.arm,
                    seen.id,
                    seen.at,
                    seen.model_dump_json(),
                    json.dumps(measures),
                    json.dumps(pair.files),
                ),
            )
            self._thin(connection, "pairs", seen.rollout, seen.arm)
            return cursor.rowcount == 1

    def keep_files(self, rollout: str, arm: str, pair: str, files: Mapping[str, str]) -> None:
        """Say which audio of a pair is kept."""
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE pairs SET files = ? WHERE rollout = ? AND arm = ? AND id = ?",
                (json.dumps(dict(files)), rollout, arm, pair),
            )

    def _thin(self, connection: sqlite3.Connection, table: str, rollout: str, arm: str) -> None:
        """Drop every other row of the older half once there are too many: old times stay represented."""
        where = f"FROM {table} WHERE rollout = ? AND arm = ?"
        while True:
            count = connection.execute(f"SELECT count(*) {where}", (rollout, arm)).fetchone()[0]
            if count <= self._max_rows:
                return
            connection.execute(
                f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM "  # noqa: S608
                f"(SELECT rowid, row_number() OVER (ORDER BY at, rowid) AS place {where}) "
                "WHERE place <= ? AND place % 2 = 0)",
                (rollout, arm, count // 2 + 2),
            )

    def samples(self, rollout: Rollout, since: float, until: float = math.inf) -> dict[str, ArmSamples]:
        """Samples of all arms, stable included, for :func:`voxrepo.rollout.gates.judge`.

        Clients' own requests count; of a shadow arm, which has none, the copies.

        Args:
            rollout: whose arms.
            since: seconds since the epoch.
            until: likewise.
        """
        policy = rollout.spec.policy
        arms = arms_of(policy)
        return {
            arm: self._samples(rollout.id, arm, since, until, copies=isinstance(policy, ShadowPolicy) and arm in arms)
            for arm in [STABLE_ARM, *arms]
        }

    def _samples(self, rollout: str, arm: str, since: float, until: float, *, copies: bool) -> ArmSamples:
        table = self._database.columns(
            "SELECT outcome IN (SELECT value FROM json_each(?)), latency_s, first_piece_s, audio_s, level_dbfs,"
            " clipped_ratio, silence_ratio, engine_s FROM observations"
            " WHERE rollout = ? AND arm = ? AND is_copy = ? AND at BETWEEN ? AND ?"
            " AND outcome IN (SELECT value FROM json_each(?)) ORDER BY at",
            (
                json.dumps(sorted(FAILED_OUTCOMES)),
                rollout,
                arm,
                copies,
                since,
                until,
                json.dumps(sorted(COUNTED_OUTCOMES)),
            ),
        )
        columns = table.T.reshape(8, -1)
        failed, latency_s, first_piece_s, audio_s, level_dbfs, clipped_ratio, silence_ratio, engine_s = columns
        measured = [
            json.loads(row["measures"])
            for row in self._database.query(
                "SELECT measures FROM pairs WHERE rollout = ? AND arm = ? AND at BETWEEN ? AND ? ORDER BY at",
                (rollout, arm, since, until),
            )
        ]
        # a pair of which one half failed has no measures: it is no comparison
        measured = [measures for measures in measured if measures]
        names = sorted({name for measures in measured for name in measures})
        return ArmSamples(
            failed=failed > 0,
            latency_s=latency_s,
            first_piece_s=first_piece_s,
            audio_s=audio_s,
            level_dbfs=level_dbfs,
            clipped_ratio=clipped_ratio,
            silence_ratio=silence_ratio,
            engine_s=engine_s,
            pairs={name: column(measures.get(name) for measures in measured) for name in names},
        )

    def requests(self, rollout: str, *, since: float = 0.0) -> list[RequestSeen]:
        """Requests that are kept, in the order of time; for reports."""
        rows = self._database.query(
            "SELECT o.*, r.voice FROM observations o JOIN rollouts r ON r.id = o.rollout "
            "WHERE o.rollout = ? AND o.at >= ? ORDER BY o.at",
            (rollout, since),
        )
        return [_request(row) for row in rows]

    def pairs(self, rollout: str) -> list[PairRecord]:
        """Pairs that are kept, in the order of time."""
        rows = self._database.query("SELECT seen, measures, files FROM pairs WHERE rollout = ? ORDER BY at", (rollout,))
        return [
            PairRecord(PairSeen.model_validate_json(row["seen"]), json.loads(row["measures"]), json.loads(row["files"]))
            for row in rows
        ]

    def totals(self, rollout: str) -> list[Total]:
        """Counts by minute; complete, whatever was thinned."""
        rows = self._database.query("SELECT * FROM totals WHERE rollout = ? ORDER BY minute, arm", (rollout,))
        return [
            Total(
                row["arm"],
                bool(row["is_copy"]),
                row["outcome"],
                row["minute"],
                row["requests"],
                row["latency_s"],
                row["audio_s"],
            )
            for row in rows
        ]


def _row(request: RequestSeen) -> tuple[object, ...]:
    return (
        request.rollout,
        request.arm,
        bool(request.copy_of),
        request.at,
        request.outcome,
        request.pinned,
        request.streamed,
        request.text_chars,
        request.latency_s,
        request.first_piece_s,
        request.underruns,
        request.audio_s,
        request.level_dbfs,
        request.peak_dbfs,
        request.clipped_ratio,
        request.silence_ratio,
        request.engine_s,
    )


def _request(row: sqlite3.Row) -> RequestSeen:
    # whose request a copy repeats is not kept: it is the stable arm's for a shadow, and the arm's own otherwise
    values = {name: row[name] for name in RequestSeen.model_fields if name in row.keys()}  # noqa: SIM118 (a Row)
    values["pinned"], values["streamed"] = bool(row["pinned"]), bool(row["streamed"])
    values["copy_of"] = "another" if row["is_copy"] else ""
    return RequestSeen(**values)


def _count(connection: sqlite3.Connection, seen: Iterable[RequestSeen]) -> None:
    counts: dict[tuple[str, str, bool, str, int], list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for request in seen:
        key = (request.rollout, request.arm, bool(request.copy_of), request.outcome, int(request.at // 60))
        count = counts[key]
        count[0] += 1
        count[1] += request.latency_s
        count[2] += request.audio_s or 0.0
    connection.executemany(
        "INSERT INTO totals (rollout, arm, is_copy, outcome, minute, requests, latency_s, audio_s) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (rollout, arm, is_copy, outcome, minute) DO UPDATE SET "
        "requests = requests + excluded.requests, latency_s = latency_s + excluded.latency_s, "
        "audio_s = audio_s + excluded.audio_s",
        [(*key, int(count[0]), count[1], count[2]) for key, count in counts.items()],
    )
