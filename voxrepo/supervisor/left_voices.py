"""Voices that no rollout concerns any more, until they have the versions that ``voice.yaml`` pins.

A rollout ends without servers that were away, and pins what it came to. A server that comes back, or was not yet done,
finds its voice missing in the plan, and goes by the file then.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from voxrepo.repository.layout import Layout
from voxrepo.repository.voice import read_voice
from voxrepo.rollout.plan import Plan, PlannedVoice
from voxrepo_contract.errors import VoxrepoError

log = logging.getLogger(__name__)

NO_ROLLOUT = "voice.yaml"
"""Stands for the rollout of a voice that was never seen in the plan; no rollout is named like this."""


class LeftVoices:
    """What is wanted of voices that have left the plan.

    Args:
        layout: of the root.

    Attributes:
        wanted: by voice; to be dropped by :meth:`forget` once it is so.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.wanted: dict[str, PlannedVoice] = {}

    def plan_changed(self, before: Plan, after: Plan, missed: Collection[str] = ()) -> None:
        """Take in a new plan.

        Args:
            before: the one that was followed so far.
            after: the new one.
            missed: voices that may have come and gone between the two.
        """
        names = {*before.voices, *self.wanted, *missed} - set(after.voices)
        self.wanted = {
            name: wanted
            for name in sorted(names)
            if (wanted := self._pinned(name, before.voices.get(name) or self.wanted.get(name))) is not None
        }

    def _pinned(self, name: str, last: PlannedVoice | None) -> PlannedVoice | None:
        try:
            versions = read_voice(self._layout, name).versions
        except VoxrepoError as error:
            log.error("%s keeps its versions: %s", name, error)
            return None
        return PlannedVoice(
            rollout=NO_ROLLOUT if last is None else last.rollout,
            stable=versions,
            resource_preserving=last is not None and last.resource_preserving,
        )

    def forget(self, name: str) -> None:
        """The voice has these versions, or cannot be given them."""
        self.wanted.pop(name, None)
