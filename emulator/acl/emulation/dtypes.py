"""Numbers of the data types: ``aclDataType``, Open Inference Protocol names, numpy."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

ACL_OF_NAME: Final = {
    "FP32": 0,
    "FP16": 1,
    "INT8": 2,
    "INT32": 3,
    "UINT8": 4,
    "INT16": 6,
    "UINT16": 7,
    "UINT32": 8,
    "INT64": 9,
    "UINT64": 10,
    "FP64": 11,
    "BOOL": 12,
    "BF16": 27,
}

NUMPY_OF_NAME: Final[dict[str, np.dtype[Any]]] = {
    "FP32": np.dtype(np.float32),
    "FP16": np.dtype(np.float16),
    "INT8": np.dtype(np.int8),
    "INT32": np.dtype(np.int32),
    "UINT8": np.dtype(np.uint8),
    "INT16": np.dtype(np.int16),
    "UINT16": np.dtype(np.uint16),
    "UINT32": np.dtype(np.uint32),
    "INT64": np.dtype(np.int64),
    "UINT64": np.dtype(np.uint64),
    "FP64": np.dtype(np.float64),
    "BOOL": np.dtype(np.bool_),
}
"""BF16 has no numpy type: a model that uses it can be loaded and described, not run."""

FORMAT_ND: Final = 2

_UNDEFINED: Final = -1
_STRING: Final = 13
_SIZES: Final = {_UNDEFINED: 0, 0: 4, 1: 2, 2: 1, 3: 4, 4: 1, 6: 2, 7: 2, 8: 4, 9: 8, 10: 8, 11: 8, 12: 1} | {
    _STRING: 0,
    16: 8,
    17: 16,
    27: 2,
    29: 1,
    30: 1,
    33: 4,
}
_UNKNOWN_BYTES: Final = 8

_NUMPY_OF_NUMBER: Final = {np.dtype(code).num: np.dtype(code) for code in np.typecodes["All"] if code not in "OSUVMm"}


def size_of(acl_type: int) -> int:
    """Bytes per element as ``acl.data_type_size`` gives them, oddities included."""
    return _SIZES.get(acl_type, _UNKNOWN_BYTES)


def numpy_of_number(number: int) -> np.dtype[Any] | None:
    """The numpy type of numpy's own C type number, e.g. 11 for float32."""
    return _NUMPY_OF_NUMBER.get(number)
