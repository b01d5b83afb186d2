"""Whether an utterance that was made in pieces can be heard; the vocoder asks the same of whole ones."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

INT16_FULL_SCALE = 32767
SILENCE_PEAK = 1e-3
"""-60 dBFS, as in the vocoder's own check. A whole utterance below it is a failed run, not speech."""


class Loudness:
    """How far the segments of an utterance swing. A constant is not heard, so the level alone does not count."""

    def __init__(self) -> None:
        self._loudest = 0
        self._low, self._high = INT16_FULL_SCALE, -INT16_FULL_SCALE

    def add(self, samples: npt.NDArray[np.int16]) -> None:
        """Take in the next INT16 samples of a segment."""
        self._low = min(self._low, int(samples.min(initial=INT16_FULL_SCALE)))
        self._high = max(self._high, int(samples.max(initial=-INT16_FULL_SCALE)))

    def end_segment(self) -> None:
        """The next samples belong to another segment."""
        self._loudest = max(self._loudest, min(max(-self._low, self._high), self._high - self._low))
        self._low, self._high = INT16_FULL_SCALE, -INT16_FULL_SCALE

    @property
    def peak(self) -> float:
        """Relative to full scale, of the segments that have ended."""
        return self._loudest / INT16_FULL_SCALE

    @property
    def is_silent(self) -> bool:
        """Whether no segment that has ended can be heard."""
        return self.peak < SILENCE_PEAK

    def __str__(self) -> str:
        return f"peak {self.peak:.5f} of full scale"
