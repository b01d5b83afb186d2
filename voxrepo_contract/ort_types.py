"""onnxruntime's words for element types."""

from __future__ import annotations

ORT_DTYPES = {
    "tensor(bool)": "BOOL",
    "tensor(int8)": "INT8",
    "tensor(uint8)": "UINT8",
    "tensor(int16)": "INT16",
    "tensor(uint16)": "UINT16",
    "tensor(int32)": "INT32",
    "tensor(uint32)": "UINT32",
    "tensor(int64)": "INT64",
    "tensor(uint64)": "UINT64",
    "tensor(float16)": "FP16",
    "tensor(float)": "FP32",
    "tensor(double)": "FP64",
}
"""Open Inference Protocol names of the numeric ones that numpy has."""
