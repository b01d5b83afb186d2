"""Rollouts, their events, commands and the controller's lease, in SQLite."""

from __future__ import annotations

import functools
import json
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from pydantic import ValidationError

from voxrepo.rollout.database import Database
from voxrepo.rollout.decision import Command, Decision, Event
from voxrepo.rollout.gates import Judgement
from voxrepo.rollout.plan import Versions
from voxrepo.rollout.spec import RolloutSpec, parse_spec
from voxrepo.rollout.state import Rollout, RolloutState, current_weights
from voxrepo_contract import yamlfile
from voxrepo_contract.errors import AlreadyExists, ConfigError, NotFound, Unavailable

CONTROLLER = "controller"
LONGEST_LEASE_S = 120.0
"""A lease that ends later than this was taken before the clock was set back; it holds nobody off. Longer than any lease
by more than clocks of several machines differ."""


class LeaseLost(Unavailable):
    """Another controller has taken over; what this one decided was not saved."""


class StateChanged(Unavailable):
    """Somebody else changed the rollout since it was read; decide again."""


@dataclass(frozen=True)
class LoggedEvent:
    """An event with its place in the log; ``at`` in seconds since the epoch."""

    id: int
    at: float
    rollout: str
    event: Event


@dataclass(frozen=True)
class StepRecord:
    """What share each arm had from a moment on: percent by arm other than stable."""

    number: int
    started_at: float
    phase: str
    weights: dict[str, float]


@dataclass(frozen=True)
class Progress:
    """What was known at the controller's last look: what is waited for, and the verdicts."""

    waiting: str
    judgement: Judgement | None
    updated_at: float


class Store:
    """The database of one root. Safe for several processes and threads.

    Args:
        file: ``rollouts.db``; made if missing.
        clock: seconds since the epoch.

    Raises:
        ConfigError: the file cannot be used.
    """

    def __init__(self, file: Path, clock: Callable[[], float] = time.time) -> None:
        self.database = Database(file)
        self._clock = clock

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    # rollouts

    def create(self, spec: RolloutSpec, stable: Versions, *, by: str = "", id_: str | None = None) -> Rollout:
        """Add a rollout, pending.

        Args:
            spec: checked already (:func:`voxrepo.rollout.check.check_spec`).
            stable: complete versions of the voice now.
            by: who asked, for the log.
            id_: for tests; else the date and a random part.

        Raises:
            AlreadyExists: a rollout of the voice has not ended, or the id is taken.
        """
        now = self._clock()
        name = id_ or f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{secrets.token_hex(3)}"
        state = RolloutState(since=now, reason="created")
        rollout = Rollout(name, spec, dict(stable), state, now)
        arms = ", ".join(
            f"{arm} ({', '.join(f'{s} {v}' for s, v in changed.items())})" for arm, changed in spec.arms.items()
        )
        who = f" by {by}" if by else ""
        event = Event("created", "pending", "pending", f"{spec.policy.kind} of {spec.voice}, arms {arms}{who}")
        try:
            with self.database.transaction() as connection:
                connection.execute(
                    "INSERT INTO rollouts (id, voice, spec, stable, state, phase, created_at, updated_at) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        name,
                        spec.voice,
                        yamlfile.dump(spec),
                        json.dumps(rollout.stable),
                        state.model_dump_json(),
                        state.phase,
                        now,
                        now,
                    ),
                )
                _log(connection, name, event, now)
        except sqlite3.IntegrityError as error:
            running = self.active().get(spec.voice)
            if running is not None:
                raise AlreadyExists(
                    f"the rollout {running} of {spec.voice} has not ended; a voice can have one at a time"
                ) from error
            raise AlreadyExists(f"there is a rollout {name!r} already") from error
        return rollout

    def active(self) -> dict[str, str]:
        """Id by voice of rollouts that have not ended."""
        rows = self.database.query("SELECT voice, id FROM rollouts WHERE NOT is_final ORDER BY created_at")
        return {row["voice"]: row["id"] for row in rows}

    def ended(self) -> dict[tuple[str, str], int]:
        """How many rollouts have ended, by voice and final phase."""
        rows = self.database.query(
            "SELECT voice, phase, count(*) AS number FROM rollouts WHERE is_final GROUP BY voice, phase"
        )
        return {(row["voice"], row["phase"]): row["number"] for row in rows}

    def rollout(self, id_: str) -> Rollout:
        """One rollout.

        Raises:
            NotFound: there is none of that id.
            ConfigError: it cannot be understood.
        """
        rows = self.database.query("SELECT * FROM rollouts WHERE id = ?", (id_,))
        if not rows:
            raise NotFound(f"there is no rollout {id_!r}")
        return self._read(rows[0])

    def rollouts(self, voice: str | None = None, *, only_active: bool = False) -> list[Rollout]:
        """Rollouts, the newest last."""
        rows = self.database.query(
            "SELECT * FROM rollouts WHERE (? IS NULL OR voice = ?) AND (NOT ? OR NOT is_final) "
            "ORDER BY created_at, rowid",
            (voice, voice, only_active),
        )
        return [self._read(row) for row in rows]

    def _read(self, row: sqlite3.Row) -> Rollout:
        try:
            spec = _spec_of(row["spec"], row["id"])
            state = RolloutState.model_validate_json(row["state"])
            stable = {str(stage): int(version) for stage, version in json.loads(row["stable"]).items()}
        except (ValidationError, ValueError) as error:
            raise ConfigError(
                f"the rollout {row['id']} cannot be understood: {error}", file=self.database.file
            ) from error
        return Rollout(row["id"], spec, stable, state, row["created_at"])

    # decisions

    def save(self, rollout: Rollout, decision: Decision, *, holder: str) -> Rollout:
        """Save a decision: state, events and consumed commands in one transaction.

        Args:
            rollout: as it was read.
            decision: made from it.
            holder: who holds the lease.

        Raises:
            LeaseLost: ``holder`` does not hold the lease any more.
            StateChanged: the rollout is not in the state any more from which was decided.
        """
        now = self._clock()
        after = rollout.with_state(decision.state)
        with self.database.transaction() as connection:
            self._demand_lease(connection, holder, now)
            row = connection.execute("SELECT state FROM rollouts WHERE id = ?", (rollout.id,)).fetchone()
            if row is None:
                raise NotFound(f"there is no rollout {rollout.id!r}")
            if RolloutState.model_validate_json(row["state"]) != rollout.state:
                raise StateChanged(f"the rollout {rollout.id} was changed by somebody else")
            if decision.state != rollout.state:
                connection.execute(
                    "UPDATE rollouts SET state = ?, phase = ?, is_final = ?, updated_at = ?, waiting = '' WHERE id = ?",
                    (decision.state.model_dump_json(), decision.state.phase, decision.state.is_final, now, rollout.id),
                )
                _record_step(connection, after, now)
            for event in decision.events:
                _log(connection, rollout.id, event, now)
            connection.executemany(
                "UPDATE commands SET consumed_at = ? WHERE id = ? AND rollout = ? AND consumed_at IS NULL",
                [(now, command, rollout.id) for command in decision.consumed],
            )
        return after

    def note(self, rollout: str, waiting: str, judgement: Judgement | None, *, holder: str) -> None:
        """Save what is known now, for ``status`` and ``watch``; no event.

        Raises:
            LeaseLost: ``holder`` does not hold the lease any more.
        """
        now = self._clock()
        with self.database.transaction() as connection:
            self._demand_lease(connection, holder, now)
            connection.execute(
                "UPDATE rollouts SET waiting = ?, judgement = ?, updated_at = ? WHERE id = ?",
                (waiting, None if judgement is None else judgement.model_dump_json(), now, rollout),
            )

    def progress(self, rollout: str) -> Progress:
        """What :meth:`note` saved last.

        Raises:
            NotFound: there is no such rollout.
        """
        rows = self.database.query("SELECT waiting, judgement, updated_at FROM rollouts WHERE id = ?", (rollout,))
        if not rows:
            raise NotFound(f"there is no rollout {rollout!r}")
        judged = rows[0]["judgement"]
        judgement = None if judged is None else Judgement.model_validate_json(judged)
        return Progress(rows[0]["waiting"], judgement, rows[0]["updated_at"])

    # the log

    def events(self, rollout: str | None = None, *, after: int = 0) -> list[LoggedEvent]:
        """Events in order, of one rollout or of all, those after the event of that id."""
        rows = self.database.query(
            "SELECT * FROM events WHERE id > ? AND (? IS NULL OR rollout = ?) ORDER BY id", (after, rollout, rollout)
        )
        return [
            LoggedEvent(
                row["id"],
                row["at"],
                row["rollout"],
                Event(row["kind"], row["from_phase"], row["to_phase"], row["reason"], json.loads(row["numbers"])),
            )
            for row in rows
        ]

    def explain(self, rollout: Rollout, reason: str, *, holder: str) -> None:
        """Add an event that changes nothing: what the controller did, such as taking a rollout up again.

        Raises:
            LeaseLost: ``holder`` does not hold the lease any more.
        """
        now = self._clock()
        phase = rollout.state.phase
        with self.database.transaction() as connection:
            self._demand_lease(connection, holder, now)
            _log(connection, rollout.id, Event("controller", phase, phase, reason), now)

    def steps(self, rollout: str) -> list[StepRecord]:
        """Shares over time, in order."""
        rows = self.database.query("SELECT * FROM steps WHERE rollout = ? ORDER BY number", (rollout,))
        return [StepRecord(row["number"], row["started_at"], row["phase"], json.loads(row["weights"])) for row in rows]

    # commands

    def order(self, rollout: str, command: Command) -> Command:
        """Leave a command for the controller.

        Returns:
            the command with its id.

        Raises:
            NotFound: there is no such rollout.
        """
        with self.database.transaction() as connection:
            if connection.execute("SELECT 1 FROM rollouts WHERE id = ?", (rollout,)).fetchone() is None:
                raise NotFound(f"there is no rollout {rollout!r}")
            cursor = connection.execute(
                "INSERT INTO commands (rollout, at, command) VALUES (?, ?, ?)",
                (rollout, self._clock(), command.model_dump_json(exclude={"id"})),
            )
            return command.model_copy(update={"id": int(cursor.lastrowid or 0)})

    def commands(self, rollout: str) -> list[Command]:
        """Commands that have not been consumed, in order; ``unreadable`` where one cannot be understood."""
        rows = self.database.query(
            "SELECT id, command FROM commands WHERE rollout = ? AND consumed_at IS NULL ORDER BY id", (rollout,)
        )
        return [_command(row["id"], row["command"]) for row in rows]

    def is_consumed(self, command: int) -> bool:
        """Whether the controller has dealt with a command."""
        rows = self.database.query("SELECT consumed_at FROM commands WHERE id = ?", (command,))
        return bool(rows) and rows[0]["consumed_at"] is not None

    # lease

    def take_lease(self, holder: str, duration_s: float, name: str = CONTROLLER) -> Literal["taken", "renewed"] | None:
        """Take or renew the lease for ``duration_s`` from now; None if somebody else holds it.

        A holder that was delayed beyond its time cannot harm: :meth:`save` looks at the lease again in its transaction.

        Returns:
            ``renewed`` if nobody else has held it since ``holder`` took it.
        """
        with self.database.transaction() as connection:
            now = self._clock()  # inside: the wait for the lock must not count
            row = connection.execute("SELECT holder FROM lease WHERE name = ?", (name,)).fetchone()
            cursor = connection.execute(
                "INSERT INTO lease (name, holder, until) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE "
                "SET holder = excluded.holder, until = excluded.until "
                "WHERE holder = excluded.holder OR until <= ? OR until > ?",
                (name, holder, now + duration_s, now, now + LONGEST_LEASE_S),
            )
            if cursor.rowcount != 1:
                return None
            return "renewed" if row is not None and row["holder"] == holder else "taken"

    def release_lease(self, holder: str, name: str = CONTROLLER) -> None:
        """Give the lease up, so that another need not wait for its end."""
        with self.database.transaction() as connection:
            connection.execute("DELETE FROM lease WHERE name = ? AND holder = ?", (name, holder))

    def lease_holder(self, name: str = CONTROLLER) -> str | None:
        """Who holds the lease now."""
        now = self._clock()
        rows = self.database.query(
            "SELECT holder FROM lease WHERE name = ? AND until > ? AND until <= ?", (name, now, now + LONGEST_LEASE_S)
        )
        return rows[0]["holder"] if rows else None

    @contextmanager
    def under_lease(self, holder: str) -> Iterator[None]:
        """Do something outside of the database, such as writing the plan, while nobody else can take the lease.

        The database can be neither read nor written meanwhile but by others.

        Raises:
            LeaseLost: ``holder`` does not hold the lease any more.
        """
        with self.database.transaction() as connection:
            self._demand_lease(connection, holder, self._clock())
            yield

    def _demand_lease(self, connection: sqlite3.Connection, holder: str, now: float) -> None:
        row = connection.execute("SELECT holder, until FROM lease WHERE name = ?", (CONTROLLER,)).fetchone()
        if row is None or row["holder"] != holder or row["until"] <= now:
            raise LeaseLost(f"the lease of the controller is not {holder}'s any more", reason="lease")


@functools.lru_cache(maxsize=64)
def _spec_of(text: str, rollout: str) -> RolloutSpec:
    """A spec from its text; the controller asks for the same ones four times a second."""
    return parse_spec(text, Path(f"rollout {rollout}"))


def _command(id_: int, text: str) -> Command:
    try:
        return Command.model_validate_json(text).model_copy(update={"id": id_})
    except ValidationError as error:
        return Command(id=id_, kind="unreadable", reason=str(error.errors(include_url=False)[0]["msg"]))


def _log(connection: sqlite3.Connection, rollout: str, event: Event, now: float) -> None:
    connection.execute(
        "INSERT INTO events (at, rollout, kind, from_phase, to_phase, reason, numbers) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (now, rollout, event.kind, event.from_phase, event.to_phase, event.reason, _json(event.numbers)),
    )


def _json(numbers: Mapping[str, Any]) -> str:
    return json.dumps(numbers, allow_nan=False, separators=(",", ":"))


def _record_step(connection: sqlite3.Connection, rollout: Rollout, now: float) -> None:
    """Add a step if the shares or the phase are others than in the last one."""
    weights = _json(current_weights(rollout))
    last = connection.execute(
        "SELECT number, phase, weights FROM steps WHERE rollout = ? ORDER BY number DESC LIMIT 1", (rollout.id,)
    ).fetchone()
    if last is not None and (last["phase"], last["weights"]) == (rollout.state.phase, weights):
        return
    connection.execute(
        "INSERT INTO steps (rollout, number, started_at, phase, weights) VALUES (?, ?, ?, ?, ?)",
        (rollout.id, 0 if last is None else last["number"] + 1, now, rollout.state.phase, weights),
    )
