"""Pure: which part of the engine a stream of a voice needs to keep ahead of its playback."""

from __future__ import annotations

from dataclasses import dataclass, field

from voxrepo.edge.costs import MAX_OUTLIER

FADE = 0.95
"""What a call's weight is multiplied by with every later one of its stage: the last 20 count."""

MIN_CALLS = 12
"""Calls of a stage before which nothing is said about it."""


@dataclass
class _Stage:
    calls: int = 0
    own_s: float = 0.0
    audio_s: float = 0.0


@dataclass
class StreamLoad:
    """What the stages of one voice take for a second of audio, from the calls made for streams."""

    _stages: dict[str, _Stage] = field(default_factory=dict)

    def observe(self, stage: str, audio_s: float, shared_s: float, own_s: float) -> None:
        """Learn from a call; see :meth:`voxrepo.edge.gates.CallGate.used_s` for the two times.

        Args:
            stage: of the voice.
            audio_s: length of the audio that the call brought forward.
            shared_s: seconds in which it got a part of the time of its gate.
            own_s: that part.
        """
        if audio_s <= 0 or own_s <= 0:
            return
        # calls that shared the gate weigh more: alone, an engine shows less than it can do with several
        weight = shared_s / own_s
        seen = self._stages.setdefault(stage, _Stage())
        if seen.calls >= MIN_CALLS:
            own_s = min(own_s, MAX_OUTLIER * audio_s * seen.own_s / seen.audio_s)
        seen.calls += 1
        seen.own_s = FADE * seen.own_s + weight * own_s
        seen.audio_s = FADE * seen.audio_s + weight * audio_s

    def of_one_stream(self, shares_places: bool = False) -> float:
        """Part of the engine that one stream needs; 1 is all of it. 0 while not enough is known.

        Args:
            shares_places: the stages take the same places from each other, so that their parts add up; else the
                busiest one counts.
        """
        parts = [seen.own_s / seen.audio_s for seen in self._stages.values() if seen.calls >= MIN_CALLS]
        return sum(parts) if shares_places else max(parts, default=0.0)
