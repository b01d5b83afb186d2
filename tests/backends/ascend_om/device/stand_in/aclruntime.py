"""A stand-in for Ascend's ``aclruntime`` extension, which exists for machines with CANN only.

Built from what is publicly documented of it, for the tests of runtime ``ais_bench``. It computes ``output = 2 x first
input`` and is as unforgiving as the real one where that is known to trap callers:

* it keeps addresses of inputs, never the arrays, and reads them when it runs;
* input bytes must equal ``realsize`` to the byte, data types are not looked at;
* its errors carry its own small code; AscendCL's code is printed to descriptor 1 only;
* a context belongs to the thread that made it until another one sets it;
* device memory of a failed run stays allocated, and touching a session after a failed set-call is a crash;
* timings pile up until they are reset.

A graph file has a side car ``<file>.json``: ``inputs`` and ``outputs`` as ``[name, dtype, dims]``, ``kind``, ``gears``
as joined dims, and ``fail`` (a text to print) while the file ``<file>.fail`` exists.
"""

from __future__ import annotations

import ctypes
import enum
import json
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


class Crash(BaseException):
    """Where the real extension would end the process."""


class dtype(enum.Enum):
    float32 = 0
    float16 = 1
    int8 = 2
    int32 = 3
    uint8 = 4
    int16 = 6
    int64 = 9
    double = 11
    bool = 12
    bfloat16 = 27


_NUMPY = {
    dtype.float32: np.float32,
    dtype.float16: np.float16,
    dtype.int8: np.int8,
    dtype.int32: np.int32,
    dtype.uint8: np.uint8,
    dtype.int16: np.int16,
    dtype.int64: np.int64,
    dtype.double: np.float64,
    dtype.bool: np.bool_,
}

sessions: list[InferenceSession] = []


class state:
    """What the process holds.

    Attributes:
        live_buffers: device buffers that are allocated now.
        finalized: AscendCL was ended.
    """

    live_buffers = 0
    finalized = False


@dataclass
class tensor_desc:
    name: str
    datatype: dtype
    format: int
    shape: list[int]
    size: int
    realsize: int


class BaseTensor:
    def __init__(self, address: int, size: int) -> None:
        self.address = address
        self.size = size


class Tensor:
    def __init__(self, values: Any) -> None:
        self.values = values
        self.on_host = False

    def to_host(self) -> None:
        self.on_host = True

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if not self.on_host:
            raise Crash("device memory was read from the host")
        return self.values


class session_options:
    acl_json_path = ""
    log_level = 1
    loop = 1


class summary:
    def __init__(self) -> None:
        self.exec_time_list: list[tuple[float, float]] = []


def _error(code: int, text: str) -> RuntimeError:
    return RuntimeError(f"[{code}][{text}] ")


class InferenceSession:
    def __init__(self, path: str, device_id: int, options: session_options) -> None:
        if state.finalized:
            raise Crash("AscendCL was finalized")
        file = Path(path)
        self.device_id = device_id
        facts = json.loads(Path(f"{file}.json").read_text("utf-8"))
        if "load" in facts:
            os.write(1, f"[ERROR] load failed: {facts['load']}\n".encode())
            raise _error(1, "ACL: general failure")
        self._fail = Path(f"{file}.fail")
        self._kind = facts["kind"]
        self._gears = [list(gear) for gear in facts.get("gears", [])]
        self._inputs = [self._descriptor(*item) for item in facts["inputs"]]
        self._outputs = [self._descriptor(*item) for item in facts["outputs"]]
        self._shapes: list[list[int]] | None = [d.shape for d in self._inputs] if self._kind == "static" else None
        self._sizes: list[int] = []
        self._summary = summary()
        self._broken = False
        self.is_freed = False
        self._context_of = {threading.get_ident()}
        sessions.append(self)

    @staticmethod
    def _descriptor(name: str, kind: str, dims: list[int]) -> tensor_desc:
        size = abs(int(np.prod(dims))) * (np.dtype(_NUMPY.get(dtype[kind], np.uint16)).itemsize)
        return tensor_desc(name, dtype[kind], 2, list(dims), size, size if min(dims, default=1) > 0 else 0)

    def _enter(self) -> None:
        if self._broken:
            raise Crash("double free: the session was used after a failed set call")
        if self.is_freed:
            raise Crash("use after free")
        if threading.get_ident() not in self._context_of:
            os.write(1, b"[ERROR] aclrtMalloc failed ret:107002\n")
            raise _error(1, "ACL: general failure")

    def get_inputs(self) -> list[tensor_desc]:
        return self._inputs

    def get_outputs(self) -> list[tensor_desc]:
        return self._outputs

    def set_context(self) -> None:
        self._context_of.add(threading.get_ident())

    def set_staticbatch(self) -> None:
        self._enter()
        if self._kind != "static":
            self._set_failed("static", [])

    def _set_failed(self, what: str, wanted: Any) -> None:
        self._broken = True
        os.write(1, f"[ERROR] set {what} {wanted} failed ret:145013\n".encode())
        raise _error(1, "ACL: invalid parameter")

    def set_dynamic_batchsize(self, batch: int) -> None:
        self._enter()
        if self._kind != "batch_gears" or [batch] not in self._gears:
            self._set_failed("batch", batch)
        self._take([[batch if size < 0 else size for size in d.shape] for d in self._inputs])

    def set_dynamic_dims(self, text: str) -> None:
        self._enter()
        shapes = self._parsed(text)
        if self._kind != "dims_gears" or [s for shape in shapes for s in shape] not in self._gears:
            self._set_failed("dims", text)
        self._take(shapes)

    def set_dynamic_shape(self, text: str) -> None:
        self._enter()
        if self._kind != "range":
            self._set_failed("shape", text)
        self._take(self._parsed(text))

    def _parsed(self, text: str) -> list[list[int]]:
        shapes = {}
        for item in text.split(";"):
            name, _, dims = item.rpartition(":")
            shapes[name] = [int(size) for size in dims.split(",")]
        return [shapes[d.name] for d in self._inputs]

    def _take(self, shapes: list[list[int]]) -> None:
        self._shapes = shapes
        for descriptor, shape in zip(self._inputs, shapes, strict=True):
            descriptor.realsize = int(np.prod(shape)) * np.dtype(_NUMPY[descriptor.datatype]).itemsize

    def set_custom_outsize(self, sizes: list[int]) -> None:
        self._enter()
        self._sizes = sizes

    def run(self, names: list[str], inputs: list[BaseTensor]) -> list[Tensor]:
        self._enter()
        state.live_buffers += len(inputs)
        if self._fail.exists():
            os.write(1, f"[ERROR] aclmdlExecute failed {self._fail.read_text()}\n".encode())
            raise _error(1, "ACL: general failure")
        if self._shapes is None:
            raise _error(1, "ACL: invalid parameter")
        for given, descriptor in zip(inputs, self._inputs, strict=True):
            if given.size != descriptor.realsize:
                raise _error(2, f"input size {given.size} is not {descriptor.realsize}")
        first = self._inputs[0]
        raw = ctypes.string_at(inputs[0].address, inputs[0].size)
        values = np.frombuffer(raw, _NUMPY[first.datatype]).reshape(self._shapes[0])
        results = []
        for index, descriptor in enumerate(self._outputs):
            value = (values * 2).astype(_NUMPY[descriptor.datatype])
            if self._kind == "range" and value.nbytes > self._sizes[index]:
                os.write(1, b"[ERROR] aclmdlExecute failed ret:500002 E13031 output is too small\n")
                raise _error(1, "ACL: general failure")
            results.append(Tensor(value))
        state.live_buffers -= len(inputs)
        self._summary.exec_time_list.append((0.0, 1.0))
        return results

    def sumary(self) -> summary:
        return self._summary

    def reset_sumaryinfo(self) -> None:
        self._summary.exec_time_list.clear()

    def free_resource(self) -> None:
        self._enter()
        self.is_freed = True

    @staticmethod
    def finalize() -> None:
        state.finalized = True
