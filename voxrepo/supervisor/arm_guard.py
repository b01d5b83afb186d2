"""What whoever looks after the engine must know of arms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Literal, Protocol

from voxrepo.repository.voice import VoiceSpec
from voxrepo.supervisor.stub_watch import Stub

Fate = Literal["cure", "arm", "ignore"]
"""Of a model whose stub has died: it is loaded again; only arms lose by it, and are dropped; or nobody needs it any
more."""


class ArmGuard(Protocol):
    """Knows the arms that are in the engine."""

    def fate(self, stub: Stub) -> Fate:
        """What follows from the end of a stub."""

    def died(self, stub: Stub, cause: str) -> None:
        """A stub that only arms use has ended; ``cause`` is empty if it is not known."""

    def cured_with(self, voices: Collection[str]) -> Mapping[str, VoiceSpec]:
        """Ensembles of arms that are to be loaded again with their voices, and how they speak.

        What is being changed about these voices is disturbed by it, and not held against an arm.
        """

    def publisher(self, voices: Collection[str]) -> Callable[[], None]:
        """Writes the configurations of voices as this server has them in its engine; may be called in any thread."""

    def lost(self, ensembles: Mapping[str, str]) -> None:
        """Arms that did not come back with their voice, by ensemble, with the reason."""


class NoArms:
    """Where there are none."""

    def fate(self, stub: Stub) -> Fate:
        """Every model is cured."""
        return "cure"

    def died(self, stub: Stub, cause: str) -> None:
        """Never called."""

    def cured_with(self, voices: Collection[str]) -> Mapping[str, VoiceSpec]:
        """No arms."""
        return {}

    def publisher(self, voices: Collection[str]) -> Callable[[], None]:
        """Configurations are as they were at the start."""
        return lambda: None

    def lost(self, ensembles: Mapping[str, str]) -> None:
        """Never called with any."""
