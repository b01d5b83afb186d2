"""A correct program for AscendCL in small steps, for the programs of the tests to use and to spoil.

Runs in a process on the emulator, so it imports neither pytest nor onnx.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import acl
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

H2H, H2D, D2H, D2D = range(4)
UINT8 = 2


def ok(result: Any) -> Any:
    """What a call returned beside its code, which must be 0."""
    code = result[-1] if isinstance(result, tuple) else result
    assert code == 0, (code, acl.get_recent_err_msg())
    if not isinstance(result, tuple):
        return None
    return result[0] if len(result) == 2 else result[:-1]


@dataclass
class Buffer:
    """Device memory in a data buffer, with pinned staging memory of the same size."""

    size: int
    device: int = 0
    handle: int = 0
    host: int = 0
    view: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.device = ok(acl.rt.malloc(self.size, 0))
        self.handle = acl.create_data_buffer(self.device, self.size)
        self.host = ok(acl.rt.malloc_host(self.size))
        self.view = acl.util.ptr_to_numpy(self.host, (self.size,), UINT8)

    def put(self, stream: int, value: Array) -> None:
        """Copy an array in, by way of the staging memory."""
        self.view[: value.nbytes] = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        ok(acl.rt.memcpy_async(self.device, self.size, self.host, value.nbytes, H2D, stream))

    def fetch(self, stream: int, count: int | None = None) -> None:
        """Queue a copy into the staging memory."""
        size = self.size if count is None else count
        ok(acl.rt.memcpy_async(self.host, self.size, self.device, size, D2H, stream))

    def floats(self, *shape: int) -> Array:
        """A copy of the staging memory as FP32 of that shape."""
        count = int(np.prod(shape))
        return self.view[: count * 4].view(np.float32).reshape(shape).copy()

    def close(self) -> None:
        """Release everything."""
        ok(acl.destroy_data_buffer(self.handle))
        ok(acl.rt.free(self.device))
        ok(acl.rt.free_host(self.host))


class Session:
    """Device, context, stream."""

    def __init__(self, *, init: bool = True) -> None:
        if init:
            ok(acl.init())
        ok(acl.rt.set_device(0))
        self.context = ok(acl.rt.create_context(0))
        self.stream = ok(acl.rt.create_stream())

    def synchronise(self, timeout_ms: int = -1) -> int:
        """Wait for the stream; the code."""
        code: int = acl.rt.synchronize_stream_with_timeout(self.stream, timeout_ms)
        return code

    def close(self) -> None:
        """Release everything, in the documented order."""
        ok(acl.rt.destroy_stream(self.stream))
        ok(acl.rt.destroy_context(self.context))
        ok(acl.rt.reset_device(0))
        ok(acl.finalize())


class Model:
    """A loaded model with its buffers, sized as the descriptor says, or as given for sizes it does not know."""

    def __init__(self, session: Session, path: str, *, unknown_bytes: int = 1024) -> None:
        self.session = session
        self.id = ok(acl.mdl.load_from_file(path))
        self.desc = acl.mdl.create_desc()
        ok(acl.mdl.get_desc(self.desc, self.id))
        sizes = [acl.mdl.get_input_size_by_index(self.desc, i) for i in range(acl.mdl.get_num_inputs(self.desc))]
        self.inputs = [Buffer(size or unknown_bytes) for size in sizes]
        sizes = [acl.mdl.get_output_size_by_index(self.desc, i) for i in range(acl.mdl.get_num_outputs(self.desc))]
        self.outputs = [Buffer(size or unknown_bytes) for size in sizes]
        self.input_set = self._dataset(self.inputs)
        self.output_set = self._dataset(self.outputs)

    @staticmethod
    def _dataset(buffers: list[Buffer]) -> int:
        dataset: int = acl.mdl.create_dataset()
        for buffer in buffers:
            ok(acl.mdl.add_dataset_buffer(dataset, buffer.handle))
        return dataset

    def put(self, *values: Array) -> None:
        """Copy the inputs in."""
        for buffer, value in zip(self.inputs, values, strict=False):
            buffer.put(self.session.stream, value)

    def start(self) -> int:
        """Queue a run; the code."""
        code: int = acl.mdl.execute_async(self.id, self.input_set, self.output_set, self.session.stream)
        return code

    def run(self, *values: Array) -> int:
        """Inputs in, run, whole outputs out, wait; the code of the first call that fails."""
        self.put(*values)
        code = self.start()
        if code:
            return code
        code = self.session.synchronise()
        if code:
            return code
        for buffer in self.outputs:
            buffer.fetch(self.session.stream)
        return self.session.synchronise()

    def set_shape(self, index: int, *dims: int) -> None:
        """Set the tensor desc of an input."""
        desc = acl.create_tensor_desc(0, list(dims), 2)
        ok(acl.mdl.set_dataset_tensor_desc(self.input_set, desc, index))
        acl.destroy_tensor_desc(desc)

    def output_shape(self, index: int = 0) -> list[int]:
        """Dims in the tensor desc that the last run made."""
        desc = acl.mdl.get_dataset_tensor_desc(self.output_set, index)
        return [ok(acl.get_tensor_desc_dim_v2(desc, place)) for place in range(acl.get_tensor_desc_num_dims(desc))]

    def close(self) -> None:
        """Release everything."""
        ok(acl.mdl.destroy_dataset(self.input_set))
        ok(acl.mdl.destroy_dataset(self.output_set))
        for buffer in (*self.inputs, *self.outputs):
            buffer.close()
        ok(acl.mdl.unload(self.id))
        ok(acl.mdl.destroy_desc(self.desc))


def floats(*shape: int, start: int = 0) -> Array:
    """FP32 counting up from ``start``."""
    return np.arange(start, start + int(np.prod(shape)), dtype=np.float32).reshape(shape)
