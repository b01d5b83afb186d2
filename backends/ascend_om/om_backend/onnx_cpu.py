"""Graphs on a CPU through onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort

from om_backend.device.description import GraphDescription
from om_backend.runtime import Array, Arrays, RuntimeSettings
from voxrepo_contract.errors import ConfigError, Internal, InvalidArgument
from voxrepo_contract.onnx_tensors import read_onnx_tensors
from voxrepo_contract.ort_types import ORT_DTYPES
from voxrepo_contract.stage import GraphSpec

_DTYPES = {**ORT_DTYPES, "tensor(string)": "BYTES"}


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

    description: GraphDescription | None = None

    def __init__(self, file: Path, spec: GraphSpec, settings: RuntimeSettings) -> None:
        self._file = file
        self._threads = settings.threads
        self._has_external_data = _has_external_data(file)
        self._texts = [tensor.name for tensor in spec.inputs if tensor.dtype == "BYTES"]
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
            # bytes, not a path: the stub's interpreter cannot open non-ASCII file names; but what lies beside the
            # graph is found by its path only
            source = str(self._file) if self._has_external_data else self._file.read_bytes()
            return ort.InferenceSession(source, session_options(self._threads), providers=providers)
        except Exception as error:
            raise ConfigError(f"onnxruntime cannot load this graph: {error}", file=self._file) from error

    def release_work_memory(self) -> None:
        """Start with an empty arena; see :class:`om_backend.runtime.Graph`."""
        self._session = self._open()

    def close(self) -> None:
        """Nothing to give back before the session itself goes."""

    def run(self, feeds: Arrays) -> dict[str, Array]:
        """Run the graph; see :class:`om_backend.runtime.Graph`."""
        feeds = {name: _decoded(name, value) if name in self._texts else value for name, value in feeds.items()}
        try:
            values = self._session.run(self._outputs, feeds)
        except Exception as error:
            shapes = {name: list(np.shape(value)) for name, value in feeds.items()}
            raise Internal(f"{self._file.name} failed on {shapes}: {error}") from error
        return {name: _encoded(np.asarray(value)) for name, value in zip(self._outputs, values, strict=True)}


def _has_external_data(file: Path) -> bool:
    try:
        return bool(read_onnx_tensors(file).external_files)
    except ConfigError:
        # whatever it is, onnxruntime has the last word on it
        return False


def _decoded(name: str, value: Array) -> Array:
    """Strings for onnxruntime from the bytes of a request."""
    texts = np.empty(value.shape, np.object_)
    try:
        texts.reshape(-1)[:] = [item.decode() if isinstance(item, bytes) else str(item) for item in value.reshape(-1)]
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"input {name!r} holds text that is not UTF-8") from error
    return texts


def _encoded(value: Array) -> Array:
    """Bytes for an answer, where onnxruntime gave strings."""
    if value.dtype.kind not in "OU":
        return value
    raw = np.empty(value.shape, np.object_)
    raw.reshape(-1)[:] = [str(item).encode() for item in value.reshape(-1)]
    return raw
