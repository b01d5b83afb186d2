"""When the pieces of a stream came, and what a listener would have noticed: pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


def percentile(values: Iterable[float], percent: float) -> float:
    """The value below or at which ``percent`` percent of ``values`` lie (nearest rank); NaN of nothing."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


@dataclass(frozen=True)
class StreamTiming:
    """The pieces of one stream.

    Attributes:
        arrivals_s: when each piece came, in seconds since the request was sent.
        pieces_s: length of the audio of each, in seconds.
    """

    arrivals_s: tuple[float, ...]
    pieces_s: tuple[float, ...]

    @property
    def first_piece_s(self) -> float:
        """From sending the request to the first piece; NaN without one."""
        return self.arrivals_s[0] if self.arrivals_s else math.nan

    @property
    def audio_s(self) -> float:
        """Length of all pieces."""
        return sum(self.pieces_s)

    @property
    def real_time_factor(self) -> float:
        """Time from the request to the last piece by the length of the audio; NaN without audio."""
        return self.arrivals_s[-1] / self.audio_s if self.audio_s else math.nan

    @property
    def gaps_s(self) -> tuple[float, ...]:
        """Time between each two pieces that follow one another."""
        return tuple(later - earlier for earlier, later in zip(self.arrivals_s, self.arrivals_s[1:], strict=False))

    @property
    def worst_lag_s(self) -> float:
        """By how much the latest piece missed the moment at which the audio before it was played.

        Playback begins with the first piece and never waits. Negative where every piece came ahead; NaN with fewer
        than two pieces.
        """
        due_s, worst_s = self.first_piece_s, math.nan
        for index, arrival_s in enumerate(self.arrivals_s):
            if index:
                lag_s = arrival_s - due_s
                worst_s = lag_s if math.isnan(worst_s) else max(worst_s, lag_s)
            due_s += self.pieces_s[index]
        return worst_s

    @property
    def stalls_s(self) -> tuple[float, ...]:
        """Silences that a player without a buffer makes: it starts with the first piece and waits where it must."""
        stalls: list[float] = []
        played_s = self.first_piece_s
        for arrival_s, piece_s in zip(self.arrivals_s, self.pieces_s, strict=True):
            if arrival_s > played_s:
                stalls.append(arrival_s - played_s)
                played_s = arrival_s
            played_s += piece_s
        return tuple(stalls)

    @property
    def underruns(self) -> int:
        """How often such a player had nothing to play before the end."""
        return len(self.stalls_s)


def _rounded(value: float, digits: int) -> float | None:
    return round(value, digits) if math.isfinite(value) else None


def percentiles_ms(values_s: Sequence[float]) -> dict[str, float | None]:
    """The 50th, 95th and 99th percentile and the maximum in milliseconds, as JSON types; ``None`` of nothing."""
    return {
        **{f"p{percent}": _rounded(percentile(values_s, percent) * 1000, 3) for percent in (50, 95, 99)},
        "max": _rounded(percentile(values_s, 100) * 1000, 3),
    }


def summarise(timings: Sequence[StreamTiming]) -> dict[str, Any]:
    """The numbers of many streams worth printing, as JSON types; ``None`` where there is nothing to count.

    Times in milliseconds; ``underruns`` counts silences, ``streams_with_underruns`` the streams that had any.
    """
    factors = [timing.real_time_factor for timing in timings if timing.pieces_s]
    stalls_s = [stall for timing in timings for stall in timing.stalls_s]
    lags_s = [lag for timing in timings if not math.isnan(lag := timing.worst_lag_s)]
    return {
        "streams": len(timings),
        "pieces": sum(len(timing.pieces_s) for timing in timings),
        "first_piece_ms": percentiles_ms([timing.first_piece_s for timing in timings if timing.pieces_s]),
        "gap_ms": percentiles_ms([gap for timing in timings for gap in timing.gaps_s]),
        "underruns": len(stalls_s),
        "streams_with_underruns": sum(bool(timing.underruns) for timing in timings),
        "stalled_ms": round(sum(stalls_s) * 1000, 3),
        "worst_lag_ms": _rounded(percentile(lags_s, 100) * 1000, 3),
        "real_time_factor": {
            **{f"p{percent}": _rounded(percentile(factors, percent), 4) for percent in (50, 95, 99)},
            "max": _rounded(percentile(factors, 100), 4),
        },
    }
