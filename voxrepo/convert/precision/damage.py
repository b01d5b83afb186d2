"""What lowering one part of a graph does to what the graph makes, as a number and in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from voxrepo.convert.precision.lowerer import Lowerer, Rows, noise_db, run_rows
from voxrepo.convert.precision.search import Damage
from voxrepo.quality.cepstrum import mel_cepstral_distance_unaligned_db

Array = npt.NDArray[Any]
Outputs = Mapping[str, Array]
Measure = Callable[[Sequence[Outputs], Sequence[Outputs]], Damage]
"""From what the source graph and the lowered one made of the same rows."""

ROWS = 2
"""Rows that one group's damage is measured on; it only ranks, and the judges decide."""


def noise(source: Sequence[Outputs], found: Sequence[Outputs]) -> Damage:
    """By the power of the difference against that of the output it is in; the worst output counts."""
    worst, where = -math.inf, ""
    for name in source[0]:
        level = max(noise_db({name: one[name]}, {name: other[name]}) for one, other in zip(source, found, strict=True))
        if level > worst:
            worst, where = level, name
    if math.isinf(worst):
        return Damage(math.inf, f"lowered alone it makes values of {where!r} that are not finite")
    return Damage(worst, f"lowered alone it makes noise of {worst:.1f} dB in {where!r}")


def sound(sample_rate_hz: int) -> Measure:
    """By the mel-cepstral distance of the audio, which is what the gates of a vocoder look at."""

    def measure(source: Sequence[Outputs], found: Sequence[Outputs]) -> Damage:
        distances: list[float] = []
        for one, other in zip(source, found, strict=True):
            for name, value in one.items():
                if not np.isfinite(other[name]).all():
                    return Damage(math.inf, f"lowered alone it makes values of {name!r} that are not finite")
                distance = mel_cepstral_distance_unaligned_db(_pcm(value), _pcm(other[name]), sample_rate_hz)
                distances += [] if distance is None else [distance]
        mean = sum(distances) / len(distances) if distances else 0.0
        return Damage(mean, f"lowered alone it makes a mel-cepstral distance of {mean:.3g} dB")

    return measure


def _pcm(audio: Array) -> npt.NDArray[np.int16]:
    pcm: npt.NDArray[np.int16] = np.round(np.clip(audio.reshape(-1), -1.0, 1.0) * 32767.0).astype(np.int16)
    return pcm


class Damages:
    """Measures groups of nodes of one graph, each lowered alone.

    Args:
        lowerer: of the graph.
        rows: inputs; the first of them are used.
        measure: how.
    """

    def __init__(self, lowerer: Lowerer, rows: Rows, measure: Measure) -> None:
        self._lowerer = lowerer
        self._rows = rows[:ROWS]
        self._measure = measure
        self._source: list[dict[str, Array]] = []

    def of(self, nodes: Sequence[str]) -> Damage:
        """Damage of some nodes, all others being as in the source."""
        if not self._source:
            self._source = list(run_rows(self._lowerer.model, self._rows, "the graph"))
        chosen = set(nodes)
        alone = self._lowerer.at([name for name in self._lowerer.layers if name not in chosen])
        return self._measure(self._source, list(run_rows(alone, self._rows, "the graph, one part lowered,")))
