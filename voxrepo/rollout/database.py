"""The SQLite file of rollouts: opening, schema, transactions, and errors in words."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from voxrepo_contract.errors import ConfigError, Unavailable

SCHEMA_VERSION = 2
APPLICATION_ID = 0x766F7872
"""``voxr``: tells a file of ours from any other SQLite file."""
BUSY_TIMEOUT_S = 10.0

SCHEMA = """
CREATE TABLE rollouts (
    id TEXT PRIMARY KEY,
    voice TEXT NOT NULL,
    spec TEXT NOT NULL,
    stable TEXT NOT NULL,
    state TEXT NOT NULL,
    phase TEXT NOT NULL,
    is_final INTEGER NOT NULL DEFAULT 0,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    waiting TEXT NOT NULL DEFAULT '',
    judgement TEXT
);
CREATE UNIQUE INDEX one_rollout_of_a_voice ON rollouts (voice) WHERE NOT is_final;

CREATE TABLE steps (
    rollout TEXT NOT NULL REFERENCES rollouts (id),
    number INTEGER NOT NULL,
    started_at REAL NOT NULL,
    phase TEXT NOT NULL,
    weights TEXT NOT NULL,
    PRIMARY KEY (rollout, number)
);

CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    rollout TEXT NOT NULL REFERENCES rollouts (id),
    kind TEXT NOT NULL,
    from_phase TEXT NOT NULL,
    to_phase TEXT NOT NULL,
    reason TEXT NOT NULL,
    numbers TEXT NOT NULL
);
CREATE INDEX events_of_a_rollout ON events (rollout, id);
CREATE TRIGGER events_stay BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER events_remain BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are never removed'); END;

CREATE TABLE commands (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    rollout TEXT NOT NULL REFERENCES rollouts (id),
    at REAL NOT NULL,
    command TEXT NOT NULL,
    consumed_at REAL
);
CREATE INDEX commands_to_do ON commands (rollout, id) WHERE consumed_at IS NULL;

CREATE TABLE observations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    rollout TEXT NOT NULL REFERENCES rollouts (id),
    arm TEXT NOT NULL,
    is_copy INTEGER NOT NULL,
    at REAL NOT NULL,
    outcome TEXT NOT NULL,
    pinned INTEGER NOT NULL,
    streamed INTEGER NOT NULL,
    text_chars INTEGER,
    latency_s REAL NOT NULL,
    first_piece_s REAL,
    underruns INTEGER NOT NULL,
    audio_s REAL,
    level_dbfs REAL,
    peak_dbfs REAL,
    clipped_ratio REAL,
    silence_ratio REAL,
    engine_s REAL
);
CREATE INDEX observations_of_an_arm ON observations (rollout, arm, is_copy, at);

CREATE TABLE totals (
    rollout TEXT NOT NULL REFERENCES rollouts (id),
    arm TEXT NOT NULL,
    is_copy INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    minute INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    latency_s REAL NOT NULL,
    audio_s REAL NOT NULL,
    PRIMARY KEY (rollout, arm, is_copy, outcome, minute)
);

CREATE TABLE pairs (
    rollout TEXT NOT NULL REFERENCES rollouts (id),
    arm TEXT NOT NULL,
    id TEXT NOT NULL,
    at REAL NOT NULL,
    seen TEXT NOT NULL,
    measures TEXT NOT NULL,
    files TEXT NOT NULL,
    PRIMARY KEY (rollout, arm, id)
);
CREATE INDEX pairs_by_time ON pairs (rollout, arm, at);

CREATE TABLE sources (
    path TEXT PRIMARY KEY,
    offset_bytes INTEGER NOT NULL
);

CREATE TABLE lease (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    until REAL NOT NULL
);
"""

STEPS = {1: "ALTER TABLE observations ADD COLUMN engine_s REAL"}
"""By version of the schema, what leads to the next one."""


class Database:
    """One connection, usable from several threads, one at a time.

    Args:
        file: made with its folder if missing.

    Raises:
        ConfigError: not a database of rollouts, damaged, of a newer version, or not writable.
        Unavailable: locked by another process for longer than :data:`BUSY_TIMEOUT_S`.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.RLock()
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"the folder cannot be made: {error.strerror}", file=file.parent) from error
        with self._told():
            # transactions are begun by hand: the module's own begin later than at the first read
            self.connection = sqlite3.connect(
                file, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
        try:
            with self._told():
                self._prepare()
        except BaseException:
            self.connection.close()
            raise

    def _prepare(self) -> None:
        connection = self.connection
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        self._refuse_foreign()
        connection.execute("PRAGMA journal_mode = WAL")
        # with WAL, NORMAL may lose the last transactions at a power cut; a promotion must not be forgotten
        connection.execute("PRAGMA synchronous = FULL")
        with self.transaction():
            version = self._refuse_foreign()  # again: another process may have made the schema meanwhile
            if version == 0:
                for statement in _statements(SCHEMA):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            for step in range(version or SCHEMA_VERSION, SCHEMA_VERSION):
                connection.execute(STEPS[step])
            if version != SCHEMA_VERSION:
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _refuse_foreign(self) -> int:
        """Version of the schema; 0 of an empty file.

        Raises:
            ConfigError: it is not ours, or newer.
        """
        version = int(self.connection.execute("PRAGMA user_version").fetchone()[0])
        application = int(self.connection.execute("PRAGMA application_id").fetchone()[0])
        tables = int(self.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
        if tables and application != APPLICATION_ID:
            raise ConfigError("is an SQLite file of another program; move it away", file=self.file)
        if version > SCHEMA_VERSION:
            raise ConfigError(
                f"was written by a newer voxrepo (schema {version}, this one knows {SCHEMA_VERSION}); update voxrepo",
                file=self.file,
            )
        return version

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn SQLite's errors into sentences."""
        try:
            yield
        except sqlite3.IntegrityError:
            raise
        except sqlite3.OperationalError as error:
            text = str(error)
            if "locked" in text or "busy" in text:
                raise Unavailable(
                    f"{self.file}: locked by another process for {BUSY_TIMEOUT_S:g} s; try again", reason="locked"
                ) from error
            if "full" in text:
                raise ConfigError(
                    "nothing could be saved: the disk is full; make room, nothing was changed", file=self.file
                ) from error
            raise ConfigError(f"cannot be used: {text}", file=self.file) from error
        except sqlite3.DatabaseError as error:
            raise ConfigError(
                f"is damaged ({error}); move it away with its -wal and -shm: rollouts are lost, voices are not",
                file=self.file,
            ) from error

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, holding the write lock from the start.

        Raises:
            ConfigError: damaged, disk full.
            Unavailable: locked for too long.
        """
        with self._lock, self._told():
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:  # SQLite may have rolled back by itself, when full for one
                    self.connection.execute("ROLLBACK")
                raise

    def query(self, sql: str, arguments: tuple[object, ...] = ()) -> list[sqlite3.Row]:
        """Rows of a statement that only reads.

        Raises:
            ConfigError: damaged.
            Unavailable: locked for too long.
        """
        with self._lock, self._told():
            return self.connection.execute(sql, arguments).fetchall()

    def columns(self, sql: str, arguments: tuple[object, ...] = ()) -> npt.NDArray[np.float64]:
        """Numbers of a statement that only reads: float64 [rows, columns], NaN for NULL; [0, 0] of no rows.

        Raises:
            ConfigError: damaged.
            Unavailable: locked for too long.
        """
        with self._lock, self._told():
            cursor = self.connection.cursor()
            cursor.row_factory = None  # plain tuples: a third of the time, at fifty thousand rows
            rows = cursor.execute(sql, arguments).fetchall()
        return np.array(rows, dtype=np.float64) if rows else np.empty((0, 0))

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self.connection.close()


def _statements(script: str) -> list[str]:
    """The statements of a script, since ``executescript`` would commit the transaction that is open."""
    statements, pending = [], ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            statements.append(pending)
            pending = ""
    return statements
