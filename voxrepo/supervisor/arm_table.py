"""What rollouts add to the edge's table."""

from __future__ import annotations

from dataclasses import dataclass, field

from voxrepo.edge.table import VoiceEntry
from voxrepo.rollout.route import Route


@dataclass(frozen=True)
class ArmTable:
    """Attributes:
    arms: rows of arms, by name of their ensemble.
    moving: rows of voices that an arm's ensemble serves for a moment, in place of their own.
    routes: by voice; they name no arm that has no row.
    draining: voices whose versions are about to be exchanged.
    returning: rows of ``arms`` that the engine has lost and is to have again in a moment.
    """

    arms: dict[str, VoiceEntry] = field(default_factory=dict)
    moving: dict[str, VoiceEntry] = field(default_factory=dict)
    routes: dict[str, Route] = field(default_factory=dict)
    draining: frozenset[str] = frozenset()
    returning: frozenset[str] = frozenset()
