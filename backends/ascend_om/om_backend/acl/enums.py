"""pyACL exports none of its enum values; these are the ones used here, from AscendCL's public headers."""

from __future__ import annotations

COPY_HOST_TO_DEVICE = 1
COPY_DEVICE_TO_HOST = 2
MALLOC_HUGE_FIRST = 0
"""Pages of 2 MiB for allocations above 1 MiB, normal pages below or where there are none."""
RUN_MODE_DEVICE = 0
"""The process runs on the device's own CPU (``ACL_DEVICE``): host and device memory are one."""
NUMPY_UINT8 = 2
"""numpy's own type number, as ``acl.util.ptr_to_numpy`` wants it."""
ANY_INDEX = -1
"""Reserved index argument of the gear queries."""

MEMORY_KIND_HBM = 1
"""For ``get_mem_info``; parts without HBM answer for their DDR."""

AIPP_INPUT = "ascend_dynamic_aipp_data"
"""Hidden input of models with dynamic image preprocessing."""

DTYPES: dict[int, str] = {
    0: "FP32",
    1: "FP16",
    2: "INT8",
    3: "INT32",
    4: "UINT8",
    6: "INT16",
    7: "UINT16",
    8: "UINT32",
    9: "INT64",
    10: "UINT64",
    11: "FP64",
    12: "BOOL",
}
"""aclDataType -> Open Inference Protocol name, for the types that numpy has too."""

REFUSED_DTYPES: dict[int, str] = {
    -1: "undefined",
    13: "string",
    16: "complex64",
    17: "complex128",
    27: "bfloat16",
    29: "int4",
    30: "uint1",
    33: "complex32",
}
"""aclDataType values without a numpy type or without meaning for a tensor, by a readable name."""
