"""Requests meet the table: each gets the row that serves it, to its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from voxrepo.edge.parameters import ROUTING_KEY_MAX_CHARS, arm_of, routing_key_of, shown
from voxrepo.edge.routing import OverflowSwitch, arm_entry, assigned_arm, named_arm
from voxrepo.edge.table import EdgeTable, VoiceEntry
from voxrepo.metrics.accounting import RequestRecord
from voxrepo.rollout.route import Route
from voxrepo_contract.errors import InvalidArgument, Unavailable


class ArmGone(Unavailable):
    """What was to serve a request is not loaded any more, and the table says so. It may be assigned anew."""


@dataclass(frozen=True)
class Assignment:
    """Who serves a request.

    Attributes:
        entry: row of the table.
        route: of the voice, None without a rollout.
        pinned: whether the client chose the arm.
        opening: row whose vocoder makes the first piece of a stream; None if that is ``entry`` too.
    """

    entry: VoiceEntry
    route: Route | None = None
    pinned: bool = False
    opening: VoiceEntry | None = None

    @property
    def entries(self) -> tuple[VoiceEntry, ...]:
        """All rows that the request uses."""
        return (self.entry,) if self.opening is None else (self.opening, self.entry)

    @property
    def names(self) -> tuple[str, ...]:
        """Names under which the table holds it back: the voice's, and those of its rows."""
        return (self.entry.base, *(entry.name for entry in self.entries))

    @property
    def arm(self) -> str:
        """The arm under which the request is counted: what is tried out."""
        return self.entries[0].arm

    def is_gone(self, table: EdgeTable) -> bool:
        """Whether the table has other rows instead of these. What is in recovery comes back, so it is not gone."""
        if self.entry.base not in table.voices or any(name in table.held for name in self.names):
            return False
        return any(table.voices.get(entry.name) != entry for entry in self.entries)

    def is_replaced(self, table: EdgeTable) -> bool:
        """Whether the ensemble that was to serve the request has other versions by now."""
        entry = self.entry
        return any(row.ensemble == entry.ensemble and row.versions != entry.versions for row in table.voices.values())


class Assigner:
    """Assigns requests. Keeps the state of overflows by voice, and nothing else.

    Args:
        table: the current one.
        wait_s: predicted wait of a request in the line of a row.
    """

    def __init__(self, table: Callable[[], EdgeTable], wait_s: Callable[[VoiceEntry], float]) -> None:
        self._table = table
        self._wait_s = wait_s
        self._overflows: dict[str, OverflowSwitch] = {}

    def assign(
        self, voice: VoiceEntry, parameters: Mapping[str, Any], record: RequestRecord, *, streamed: bool
    ) -> Assignment:
        """Decide who serves a request.

        Args:
            voice: row that the client calls, a voice's or an arm's.
            parameters: of the request: map of ``InferParameter`` messages.
            record: of the request; its id and the key from its header may decide.
            streamed: whether it is a stream.

        Raises:
            InvalidArgument: a parameter or the header has no such value.
            NotFound: an arm that is not served.
        """
        table = self._table()
        route = table.routes.get(voice.base)
        if "arm" in parameters:
            chosen = named_arm(voice.base, arm_of(parameters), table.voices, route)
            if voice.voice and chosen.name != voice.name:
                raise InvalidArgument(
                    f"{voice.name} is the arm {voice.arm!r} itself, and parameter 'arm' names {chosen.arm!r}; "
                    f"leave the parameter out, or call {voice.base}"
                )
            return Assignment(chosen, route, pinned=True)
        if route is None or voice.voice:
            return Assignment(voice, route, pinned=bool(voice.voice))
        if route.weights:
            arm = assigned_arm(route.rollout, route.weights, _key(parameters, record))
        elif route.overflow is not None:
            switch = self._overflows.setdefault(voice.name, OverflowSwitch())
            arm = switch.arm(route.overflow, self._wait_s(voice))
        elif route.tiered_arm is not None and streamed:
            opening = arm_entry(voice.name, route.tiered_arm, table.voices)
            return Assignment(voice, route, opening=opening)
        else:
            return Assignment(voice, route)
        return Assignment(arm_entry(voice.name, arm, table.voices) or voice, route)


def _key(parameters: Mapping[str, Any], record: RequestRecord) -> str:
    if "routing_key" in parameters:
        return routing_key_of(parameters)
    key = record.routing_key
    if len(key) > ROUTING_KEY_MAX_CHARS:
        raise InvalidArgument(
            f"the header with the routing key is {shown(key)}; it must have 1 to {ROUTING_KEY_MAX_CHARS} characters"
        )
    return key or record.id
