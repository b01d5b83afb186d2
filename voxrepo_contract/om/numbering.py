"""Numbers that stand for data types and tensor formats in OM files, and their names.

Two numberings of data types are in use: that of AscendCL (``aclDataType``) in the description of inputs and outputs,
and that of the graph's protobuf. Both are given with the Open Inference Protocol's names where it has one.
"""

from __future__ import annotations

_ACL_DTYPES = {
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
    13: "BYTES",
    16: "COMPLEX64",
    17: "COMPLEX128",
    27: "BF16",
    29: "INT4",
    30: "UINT1",
    33: "COMPLEX32",
}
_GRAPH_DTYPES = {
    1: "FP32",
    2: "FP16",
    3: "INT8",
    4: "UINT8",
    5: "INT16",
    6: "UINT16",
    7: "INT32",
    8: "INT64",
    9: "UINT32",
    10: "UINT64",
    11: "BOOL",
    12: "FP64",
    13: "BYTES",
    16: "COMPLEX64",
    17: "COMPLEX128",
    27: "BF16",
    28: "INT4",
    29: "UINT1",
    32: "COMPLEX32",
}
_FORMATS = {
    -1: "UNDEFINED",
    0: "NCHW",
    1: "NHWC",
    2: "ND",
    3: "NC1HWC0",
    4: "FRACTAL_Z",
    12: "NC1HWC0_C04",
    16: "HWCN",
    27: "NDHWC",
    29: "FRACTAL_NZ",
    30: "NCDHW",
    32: "NDC1HWC0",
    33: "FRACTAL_Z_3D",
    35: "NC",
    47: "NCL",
}


def acl_dtype_name(number: int) -> str:
    """Name of an ``aclDataType``; ``ACL_<number>`` if it has no common name."""
    return _ACL_DTYPES.get(number, f"ACL_{number}")


def graph_dtype_name(number: int) -> str:
    """Name of a data type of the graph's protobuf; ``GE_<number>`` if it has no common name."""
    return _GRAPH_DTYPES.get(number, f"GE_{number}")


def format_name(number: int) -> str:
    """Name of a tensor format (its axes' order); ``FORMAT_<number>`` if unknown."""
    return _FORMATS.get(number, f"FORMAT_{number}")
