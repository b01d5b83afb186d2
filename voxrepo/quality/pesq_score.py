"""PESQ, wide band (ITU-T P.862.2): how much of what is heard two recordings of the same moment have in common.

The package ``pesq`` (0.0.4) wraps the reference code of the ITU-T. The wrapper is under the MIT licence; the reference
code in it is under the ITU-T's own terms, and PESQ is covered by patents in some countries. So nothing requires it:
``scripts/pesq.sh`` builds it for whoever wants the measure.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

from voxrepo.quality.resampling import resampled
from voxrepo_contract.errors import ConfigError

RATE_HZ = 16_000
BEST = 4.644
"""Of a recording and itself: the top of P.862.2's scale."""
INSTALL = "install it with `bash scripts/pesq.sh`, or `pip install pesq==0.0.4` where there is a C compiler"


class Pesq:
    """Scores pairs.

    Raises:
        ConfigError: the package is not installed, or does not load; with the way to install it.
    """

    def __init__(self) -> None:
        try:
            self._package: Any = importlib.import_module("pesq")
        except ModuleNotFoundError as error:
            raise ConfigError(f"the package pesq is not installed; {INSTALL}") from error
        except Exception as error:
            # built for another numpy, for instance
            raise ConfigError(f"the package pesq does not load ({error}); {INSTALL}") from error

    def score(
        self, candidate: npt.NDArray[np.int16], reference: npt.NDArray[np.int16], sample_rate_hz: int
    ) -> float | None:
        """Score, 1.04 to 4.644; None where PESQ finds no speech, or less than a quarter of a second.

        Args:
            candidate: INT16 [N].
            reference: INT16 [N] of the same moments.
            sample_rate_hz: of both.
        """
        pair = [resampled(audio, sample_rate_hz, RATE_HZ) for audio in (reference, candidate)]
        if min(float(np.abs(audio).max(initial=0.0)) for audio in pair) == 0.0:
            return None  # the package divides by the peak, and the code waits for speech
        try:
            return float(self._package.pesq(RATE_HZ, pair[0], pair[1], "wb"))
        except (self._package.NoUtterancesError, self._package.BufferTooShortError):
            return None
