"""Graphs on a CPU through onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort

from om_backend.runtime import Array, Arrays, RuntimeSettings
from voxrepo_contract.errors import ConfigError, Internal
from voxrepo_contract.stage import GraphSpec

_DTYPES = {
    "tensor(bool)": "BOOL",
    "tensor(int8)": "INT8",
    "tensor(uint8)": "UINT8",
    "tensor(int16)": "INT16",
    "tensor(int32)": "INT32",
    "tensor(int64)": "INT64",
    "tensor(float16)": "FP16",
    "tensor(float)": "FP32",
    "tensor(double)": "FP64",
}


def session_options(threads: int) -> ort.SessionOptions:
    """Options for graphs whose input lengths change from call to call.

    Memory patterns are off: they are cached per input shape and grow without end with lengths that never repeat.
    The arena grows by what is asked for instead of by powers of two. Spinning is off, since the stages of a voice
    share the cores from separate processes and a spinning thread takes time from the one with work.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


class OnnxGraph:
    """An ONNX file in one onnxruntime session on the CPU.

    Raises:
        ConfigError: onnxruntime refuses the file, or its tensors are not those of ``stage.yaml``.
    """

    def __init__(self, file: Path, spec: GraphSpec, settings: RuntimeSettings) -> None:
        self._file = file
        self._threads = settings.threads
        self._session = self._open()
        self._outputs = [tensor.name for tensor in spec.outputs]
        for kind, have, want in (
            ("input", self._session.get_inputs(), spec.inputs),
            ("output", self._session.get_outputs(), spec.outputs),
        ):
            found = {node.name: _DTYPES.get(node.type, node.type) for node in have}
            listed = {tensor.name: tensor.dtype for tensor in want}
            if found != listed:
                raise ConfigError(f"stage.yaml lists the {kind}s {listed}, the graph has {found}", file=file)

    def _open(self) -> ort.InferenceSession:
        providers = [("CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"})]
        try:
            # bytes, not a path: the stub's interpreter cannot open non-ASCII file names
            return ort.InferenceSession(self._file.read_bytes(), session_options(self._threads), providers=providers)
        except Exception as error:
            raise ConfigError(f"onnxruntime cannot load this graph: {error}", file=self._file) from error

    def release_work_memory(self) -> None:
        """Start with an empty arena; see :class:`om_backend.runtime.Graph`."""
        self._session = self._open()

    def run(self, feeds: Arrays) -> dict[str, Array]:
        """Run the graph; see :class:`om_backend.runtime.Graph`."""
        try:
            values = self._session.run(self._outputs, dict(feeds))
        except Exception as error:
            shapes = {name: list(np.shape(value)) for name, value in feeds.items()}
            raise Internal(f"{self._file.name} failed on {shapes}: {error}") from error
        return dict(zip(self._outputs, values, strict=True))
