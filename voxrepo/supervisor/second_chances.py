"""Pure: when models that were given up are tried again. What made them fail may have passed: a disk, a device."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from voxrepo.repository.check import CheckedVoice, Inventory

FIRST_WAIT_S = 300.0
LONGEST_WAIT_S = 3600.0


@dataclass
class Absent:
    """What was given up together.

    Attributes:
        what: voices and models that clients call.
        wait_s: until the next attempt.
        next_s: of the next attempt.
        waited_s: before the last attempt.
    """

    what: Inventory
    wait_s: float
    next_s: float
    waited_s: float = 0.0


@dataclass
class SecondChances:
    """All that is given up at the moment. Times are those of ``time.monotonic``."""

    _absent: list[Absent] = field(default_factory=list)
    _back: dict[str, tuple[float, float]] = field(default_factory=dict)

    def give_up(self, what: Inventory, now_s: float) -> float:
        """Take note; seconds until the next attempt.

        What is given up again soon after it came back waits twice as long as the last time.
        """
        wait_s = FIRST_WAIT_S
        for name in (*what.voices, *what.models):
            back_s, waited_s = self._back.pop(name, (float("-inf"), 0.0))
            if now_s - back_s < waited_s:
                wait_s = max(wait_s, min(2 * waited_s, LONGEST_WAIT_S))
        self._absent.append(Absent(what, wait_s, now_s + wait_s))
        return wait_s

    def try_with(self, voice: CheckedVoice, now_s: float) -> None:
        """Try a voice that is absent with other versions, at once."""
        name = voice.spec.voice
        absent = next((one for one in self._absent if name in one.what.voices), None)
        if absent is None:
            absent = Absent(Inventory(), FIRST_WAIT_S, now_s)
            self._absent.append(absent)
        absent.what.voices[name] = voice
        absent.wait_s, absent.next_s = FIRST_WAIT_S, now_s

    def due(self, now_s: float) -> Absent | None:
        """The next that is to be tried now, if one is. If nothing comes of it, it is due again after twice the time."""
        for absent in self._absent:
            if now_s >= absent.next_s:
                absent.waited_s, absent.wait_s = absent.wait_s, min(2 * absent.wait_s, LONGEST_WAIT_S)
                absent.next_s = now_s + absent.wait_s
                return absent
        return None

    def succeeded(self, absent: Absent, now_s: float) -> None:
        """It is served again."""
        self._absent.remove(absent)
        names: Collection[str] = (*absent.what.voices, *absent.what.models)
        self._back.update(dict.fromkeys(names, (now_s, absent.waited_s)))
