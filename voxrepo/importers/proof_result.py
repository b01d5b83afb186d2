"""What a proof measured, and when it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from voxrepo.importers.proof_texts import ProofText
from voxrepo.importers.result import Progress
from voxrepo_contract.errors import ConversionRefused

T = TypeVar("T")

WAVEFORM_TOLERANCE = 1e-3
"""Largest absolute difference of a sample; full scale is 1."""
DURATION_TOLERANCE = 1e-4
"""Largest relative difference of a float duration."""
WIDE_NOISE_SCALE = 4.0
"""Duration noise of this deviation reaches the border of the spline's interval and beyond, which a voice's own
noise_w hardly does."""
WINDOW_TOLERANCE = 1e-4
"""Largest absolute difference between windows and the whole utterance."""
BATCH_TOLERANCE = 1e-2
"""Largest absolute difference of features between a padded batch of two and single runs. Other kernels for another
batch size make some 1e-4; a batch size baked into the graph or a missing mask makes 1e-1 and more."""

BOUNDARIES = ("mean", "log_scale", "latent", "features", "audio")
"""Tensors compared between original and stages, in the order in which they are computed."""

_MAX_REDRAWN = 30


@dataclass
class Proof:
    """What was measured.

    Attributes:
        texts: number of texts.
        ids: ids of all texts.
        frames: frames of all texts, equal in original and stages.
        max_abs_diff: largest absolute difference per boundary; ``windows`` is windowed against whole,
            ``batch_of_two`` the features of two padded texts against single runs.
        durations_max_rel_diff: largest relative difference of the float durations.
        wide_noise_max_rel_diff: the same at ``WIDE_NOISE_SCALE``; ``None`` for voices without noise.
        peak: largest absolute sample, full scale 1.
        rms_dbfs: root mean square level over all texts.
    """

    texts: int = 0
    ids: int = 0
    frames: int = 0
    max_abs_diff: dict[str, float] = field(default_factory=dict)
    durations_max_rel_diff: float = 0.0
    wide_noise_max_rel_diff: float | None = None
    peak: float = 0.0
    rms_dbfs: float = -np.inf
    _energy: float = 0.0
    _samples: int = 0

    def note(self, boundary: str, difference: float) -> None:
        """Keep the largest ``difference`` of a boundary; NaN counts as infinite."""
        difference = np.inf if np.isnan(difference) else difference
        self.max_abs_diff[boundary] = max(self.max_abs_diff.get(boundary, 0.0), difference)

    def heard(self, audio: npt.NDArray[Any]) -> None:
        """Take the level of some audio in."""
        self.peak = max(self.peak, float(np.max(np.abs(audio), initial=0.0)))
        self._energy += float(np.sum(np.square(audio, dtype=np.float64)))
        self._samples += audio.size
        if self._energy > 0:
            self.rms_dbfs = 10 * np.log10(self._energy / self._samples)

    def table(self) -> dict[str, Any]:
        """The proof as plain values for ``stage.yaml``, three significant digits."""
        table: dict[str, Any] = {
            "texts": self.texts,
            "ids": self.ids,
            "frames": self.frames,
            "frames_equal": True,
            "tolerance": WAVEFORM_TOLERANCE,
            "max_abs_diff": {name: _rounded(value) for name, value in self.max_abs_diff.items()},
            "durations_max_rel_diff": _rounded(self.durations_max_rel_diff),
        }
        if self.wide_noise_max_rel_diff is not None:
            table["wide_noise_max_rel_diff"] = _rounded(self.wide_noise_max_rel_diff)
        return table

    def loudness(self) -> dict[str, float]:
        """Peak and level over the proof as plain values for ``stage.yaml``."""
        return {"peak": _rounded(self.peak), "rms_dbfs": round(float(self.rms_dbfs), 1)}


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def judge(proof: Proof, boundaries: Sequence[str] = BOUNDARIES) -> None:
    """Refuse what is not exact, naming the first of ``boundaries`` at which it shows.

    Raises:
        ConversionRefused: saying what differs and by how much.
    """
    for where, relative in (
        ("durations", proof.durations_max_rel_diff),
        (f"durations at a duration noise of {WIDE_NOISE_SCALE:g}", proof.wide_noise_max_rel_diff),
    ):
        if relative is not None and not relative <= DURATION_TOLERANCE:
            raise ConversionRefused(
                f"the cut is not exact at the {where}: relative difference {relative:.2g}, "
                f"at most {DURATION_TOLERANCE:g} is allowed"
            )
    if not proof.max_abs_diff["audio"] <= WAVEFORM_TOLERANCE:
        table = ", ".join(f"{name} {proof.max_abs_diff[name]:.2g}" for name in boundaries)
        first = next((n for n in boundaries if proof.max_abs_diff[n] > WAVEFORM_TOLERANCE), "audio")
        raise ConversionRefused(
            f"the cut is not exact: the waveform differs by {proof.max_abs_diff['audio']:.2g}, at most "
            f"{WAVEFORM_TOLERANCE:g} is allowed; it begins at {first!r} (differences: {table})"
        )
    for name, limit in (("windows", WINDOW_TOLERANCE), ("batch_of_two", BATCH_TOLERANCE)):
        if not proof.max_abs_diff[name] <= limit:
            raise ConversionRefused(
                f"the cut is not exact: {name} differs by {proof.max_abs_diff[name]:.2g}, at most {limit:g} is allowed"
            )
    if not 0 < proof.peak < np.inf:
        raise ConversionRefused(f"the voice is silent or not finite: its peak over the proof is {proof.peak}")


def compare_texts(
    texts: Iterable[ProofText],
    compare: Callable[[int, ProofText], T | None],
    proof: Proof,
    progress: Progress,
    *,
    count: int,
    frames: Callable[[T], int],
) -> list[T]:
    """Compare original and stages on texts, until ``count`` of them prove something.

    Args:
        texts: a stream of them.
        compare: compares on one, given its number in the stream; None if it proves nothing.
        proof: what ``compare`` writes to.
        progress: is told a sentence and the share done, 0 to 1, after each text.
        count: how many are wanted.
        frames: number of frames of what ``compare`` returned.

    Returns:
        what ``compare`` returned; fewer than ``count`` where too many texts proved nothing.
    """
    spoken: list[T] = []
    for number, text in enumerate(islice(texts, count + _MAX_REDRAWN)):
        one = compare(number, text)
        if one is None:
            continue
        spoken.append(one)
        progress(
            f"proof text {len(spoken)} of {count}: {len(text.ids)} ids, {frames(one)} frames, "
            f"largest difference so far {proof.max_abs_diff['audio']:.1e}",
            len(spoken) / count,
        )
        if len(spoken) == count:
            break
    return spoken
