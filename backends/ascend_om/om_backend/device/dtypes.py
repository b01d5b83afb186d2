"""Data types that travel between stub and worker. Python and numpy only."""

from __future__ import annotations

import numpy as np

DTYPES = {
    "BOOL": np.dtype(np.bool_),
    "INT8": np.dtype(np.int8),
    "UINT8": np.dtype(np.uint8),
    "INT16": np.dtype(np.int16),
    "UINT16": np.dtype(np.uint16),
    "INT32": np.dtype(np.int32),
    "UINT32": np.dtype(np.uint32),
    "INT64": np.dtype(np.int64),
    "UINT64": np.dtype(np.uint64),
    "FP16": np.dtype(np.float16),
    "FP32": np.dtype(np.float32),
    "FP64": np.dtype(np.float64),
}
"""numpy types by Open Inference Protocol name."""

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def name_of(dtype: np.dtype[np.generic]) -> str:
    """The Open Inference Protocol name of a numpy type.

    Raises:
        ValueError: it has none that a device takes.
    """
    try:
        return _NAMES[dtype]
    except KeyError:
        raise ValueError(f"the data type {dtype} is not one that a device graph takes") from None
