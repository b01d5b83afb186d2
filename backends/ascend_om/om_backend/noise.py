"""Gaussian noise that depends on the request's seed and nothing else.

Philox is a counter-based generator (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011): each
(seed, segment, purpose) has a stream of its own, so a segment's noise is the same in whichever batch, instance or
order it is computed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

DURATION = 0
PRIOR = 1

_MASK = (1 << 64) - 1


def gaussian(seed: int, segment: int, purpose: int, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Standard normal noise, FP32 of ``shape``, for segment number ``segment`` of a request.

    Args:
        seed: the request's seed; negative ones are taken modulo 2^64.
        segment: index of the segment within its request.
        purpose: :data:`DURATION` or :data:`PRIOR`.
        shape: of the result; a shorter result is not a prefix of a longer one unless it differs in the first axis.
    """
    key = np.array([seed & _MASK, 2 * segment + purpose], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key)).standard_normal(shape, dtype=np.float32)
