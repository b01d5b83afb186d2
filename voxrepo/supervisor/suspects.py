"""Finding out which model the engine cannot survive, so that the others are served without it."""

from __future__ import annotations

import logging
from collections import Counter

from voxrepo.repository.check import Inventory, Problem
from voxrepo.supervisor.loader import EngineEnded

log = logging.getLogger(__name__)

ENDS_ALONE = 2
"""Ends of the engine with nothing else loading that convict a model; a single one may be chance, such as too little
memory at that moment."""


class Suspects:
    """Voices and models that were loading when the engine ended.

    Attributes:
        names: those to be loaded alone, after all others.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._ends_alone: Counter[str] = Counter()

    def blame(self, ended: EngineEnded, inventory: Inventory) -> None:
        """Take in one end of the engine; a model that is convicted becomes a problem of the inventory."""
        alone = len(ended.names) == 1 and ended.names[0] in self.names
        self.names.update(ended.names)
        if alone:
            self._ends_alone[ended.names[0]] += 1
        convicted = [name for name in ended.names if self._ends_alone[name] >= ENDS_ALONE]
        if not convicted:
            log.error("%s; after the restart each is loaded alone", ended.message)
            return
        (name,) = convicted
        log.error("%s, again; it is not tried any more until the server is restarted", ended.message)
        is_voice = inventory.voices.pop(name, None) is not None
        inventory.models.pop(name, None)
        inventory.problems.append(
            Problem(
                name,
                "voice" if is_voice else "model",
                f"the engine ended {ENDS_ALONE} times while it loaded this; its log (engine.log) may say why. It is "
                "tried again when the server is restarted",
            )
        )
