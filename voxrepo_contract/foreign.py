"""Models that come without a description: ``model.onnx`` or ``model.om`` in a version directory and nothing else.

Both sides need the same facts of such a file: the control plane to complete the model's configuration, the backend to
make a stage of it. They are read here, from the file alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from voxrepo_contract.errors import ConfigError
from voxrepo_contract.foreign_om import read_om_facts
from voxrepo_contract.onnx_tensors import read_onnx_tensors
from voxrepo_contract.stage import BATCH_AXIS, Dim, GraphSpec, GraphTensor, sha256_of

ONNX_FILE = "model.onnx"
OM_FILE = "model.om"
MAX_TENSOR_BYTES = 1 << 30
"""A device call takes no more, and messages of gRPC end at 2 GiB. Warming up with more could take all memory."""
_BATCH_WORDS = frozenset({"batch", "batchsize", "bs", "n", "b", "nb", "bsz"})
_LENGTH_WORD = re.compile(
    r"(seq|len|time|frame|sample|token|char|word|phon|step|width|height|point|box|node|edge|chunk|window|text|t$|l$)"
)
Joinable = Literal["no", "maybe", "yes"]
"""Whether the first axis of every tensor is one batch: as far as the file shows."""


@dataclass(frozen=True)
class ForeignTensor:
    """An input or output as the file gives it, its first axis included.

    Attributes:
        name: its name.
        dtype: Open Inference Protocol name.
        dims: per axis a size, or the name of an axis that varies; None if the file gives no shape (outputs only).
    """

    name: str
    dtype: str
    dims: tuple[Dim, ...] | None


@dataclass(frozen=True)
class ForeignGraph:
    """A graph file and all that it says of itself.

    Attributes:
        file: name of the file in its version directory.
        device: ``cpu`` for ONNX, ``npu`` for OM.
        inputs: in the graph's order.
        outputs: in the graph's order.
        gears: joint sizes of all axes that vary, where the graph was built for such.
        joinable: whether requests can be joined along the first axis: ``yes`` if the file says so, ``maybe`` if every
            tensor's first axis varies and nothing speaks against it but nothing for it either.
        max_batch: largest batch that the graph takes; None without a limit.
        soc: chip the graph was built for, "" for any.
    """

    file: str
    device: Literal["cpu", "npu"]
    inputs: tuple[ForeignTensor, ...]
    outputs: tuple[ForeignTensor, ...]
    gears: tuple[Mapping[str, int], ...] = ()
    joinable: Joinable = "no"
    max_batch: int | None = None
    soc: str = ""

    @property
    def signature(self) -> tuple[object, ...]:
        """What all served versions of a model must have in common: names, data types and shapes."""

        def shape(tensor: ForeignTensor) -> object:
            return None if tensor.dims is None else tuple(dim if isinstance(dim, int) else -1 for dim in tensor.dims)

        def side(tensors: Sequence[ForeignTensor]) -> tuple[object, ...]:
            return tuple(sorted((tensor.name, tensor.dtype, shape(tensor)) for tensor in tensors))

        return side(self.inputs), side(self.outputs)


def find_graph_file(version_dir: Path) -> Path:
    """The graph file of a version directory without ``stage.yaml``.

    Raises:
        ConfigError: there is none, or more than one.
    """
    found = [version_dir / name for name in (OM_FILE, ONNX_FILE) if (version_dir / name).exists()]
    if len(found) == 2:
        raise ConfigError(
            f"has both {OM_FILE} and {ONNX_FILE}; remove one, or write a stage.yaml that names the one to serve",
            file=version_dir,
        )
    if found:
        if not found[0].is_file():
            # a pipe would keep its reader waiting for ever
            raise ConfigError("is no file", file=found[0])
        return found[0]
    others = sorted(entry.name for entry in version_dir.iterdir() if entry.suffix.lower() in {".om", ".onnx"})
    hint = f"; rename {others[0]}" if len(others) == 1 else ""
    dangling = [name for name in (OM_FILE, ONNX_FILE) if (version_dir / name).is_symlink()]
    if dangling:
        raise ConfigError("is a link to a file that is not there", file=version_dir / dangling[0])
    raise ConfigError(f"holds neither {ONNX_FILE} nor {OM_FILE} nor a stage.yaml{hint}", file=version_dir)


def read_foreign(version_dir: Path) -> ForeignGraph:
    """Read the graph file of a version directory that has no ``stage.yaml``.

    Raises:
        ConfigError: there is no such file, it is something else than its name says, or it cannot be served.
    """
    file = find_graph_file(version_dir)
    graph = _read_onnx(file) if file.name == ONNX_FILE else _read_om(file)
    for side, tensors in (("input", graph.inputs), ("output", graph.outputs)):
        for tensor in tensors:
            _check_size(file, side, tensor)
    return graph


def graph_of_stage(spec: GraphSpec) -> ForeignGraph:
    """The same facts of a graph that a ``stage.yaml`` describes."""
    inputs = tuple(ForeignTensor(tensor.name, tensor.dtype, tuple(tensor.dims)) for tensor in spec.inputs)
    outputs = tuple(ForeignTensor(tensor.name, tensor.dtype, tuple(tensor.dims)) for tensor in spec.outputs)
    joined = all(tensor.dims and tensor.dims[0] == BATCH_AXIS for tensor in (*inputs, *outputs))
    sizes = [gear[BATCH_AXIS] for gear in spec.gears if BATCH_AXIS in gear]
    return ForeignGraph(
        file=spec.file,
        device=spec.device,
        inputs=inputs,
        outputs=outputs,
        gears=tuple(spec.gears),
        joinable="yes" if joined else "no",
        max_batch=max(sizes, default=None),
    )


def graph_spec_of(version_dir: Path, graph: ForeignGraph, *, joined: bool) -> GraphSpec:
    """The description that a ``stage.yaml`` would hold.

    Args:
        version_dir: where the file lies.
        graph: what the file says.
        joined: whether requests are joined along the first axis of every tensor, which then is named ``batch``.
    """

    def tensor(found: ForeignTensor) -> GraphTensor:
        dims = list(found.dims or ())
        if joined and dims:
            dims[0] = BATCH_AXIS
        elif not joined:
            # the name alone would let requests be joined
            dims = ["rows" if dim == BATCH_AXIS else dim for dim in dims]
        return GraphTensor.model_validate({"name": found.name, "dtype": found.dtype, "dims": dims})

    gears = [
        {("rows" if axis == BATCH_AXIS and not joined else axis): size for axis, size in gear.items()}
        for gear in graph.gears
    ]
    return GraphSpec(
        file=graph.file,
        sha256=sha256_of(version_dir / graph.file),
        device=graph.device,
        inputs=[tensor(found) for found in graph.inputs],
        outputs=[tensor(found) for found in graph.outputs],
        gears=gears,
    )


def _read_om(file: Path) -> ForeignGraph:
    facts = read_om_facts(file)
    return ForeignGraph(
        file=file.name,
        device="npu",
        inputs=tuple(ForeignTensor(tensor.name, tensor.dtype, tensor.dims) for tensor in facts.inputs),
        outputs=tuple(ForeignTensor(tensor.name, tensor.dtype, tensor.dims) for tensor in facts.outputs),
        gears=facts.gears,
        joinable="yes" if facts.has_batch else "no",
        max_batch=facts.max_batch,
        soc=facts.soc,
    )


def _read_onnx(file: Path) -> ForeignGraph:
    found = read_onnx_tensors(file)
    _check_external(file, found.external_files)
    if not found.inputs:
        raise ConfigError("has no inputs, so there is nothing to ask it", file=file)
    for tensor in found.inputs:
        if tensor.dims is None:
            raise ConfigError(
                f"input {tensor.name!r} has no shape in the file; export it with one (sizes that vary may be named)",
                file=file,
            )
    inputs, outputs = (
        tuple(
            ForeignTensor(
                tensor.name,
                tensor.dtype,
                None
                if tensor.dims is None
                else tuple(f"{tensor.name}.{axis}" if dim is None else dim for axis, dim in enumerate(tensor.dims)),
            )
            for tensor in side
        )
        for side in (found.inputs, found.outputs)
    )
    return ForeignGraph(
        file=file.name, device="cpu", inputs=inputs, outputs=outputs, joinable=_onnx_joinable(inputs, outputs)
    )


def _onnx_joinable(inputs: Sequence[ForeignTensor], outputs: Sequence[ForeignTensor]) -> Joinable:
    """One symbol in front of every tensor can be a batch. If all inputs are lists of numbers it rather is a length."""
    first = {tensor.dims[0] if tensor.dims else None for tensor in (*inputs, *outputs)}
    symbol = first.pop() if len(first) == 1 else None
    if not isinstance(symbol, str) or all(len(tensor.dims or ()) < 2 for tensor in inputs):
        return "no"
    words = [word for word in re.split(r"[\W_\d]+", symbol.lower()) if word]
    if any(word in _BATCH_WORDS or word.startswith("batch") for word in words):
        return "yes"
    return "no" if any(_LENGTH_WORD.match(word) for word in words) else "maybe"


def _check_size(file: Path, side: str, tensor: ForeignTensor) -> None:
    """Refuse a tensor that is too large whatever the sizes of its axes that vary."""
    # a string takes its length at least
    item_bytes = {"BOOL": 1, "BYTES": 4}.get(tensor.dtype) or int(re.sub(r"\D", "", tensor.dtype)) // 8
    size_bytes = item_bytes * math.prod(dim for dim in tensor.dims or () if isinstance(dim, int))
    if size_bytes > MAX_TENSOR_BYTES:
        raise ConfigError(
            f"{side} {tensor.name!r} has the shape {list(tensor.dims or ())}, which takes {size_bytes} bytes; a "
            f"request can carry {MAX_TENSOR_BYTES} per tensor: build the graph with smaller sizes",
            file=file,
        )


def _check_external(file: Path, names: Sequence[str]) -> None:
    for name in names:
        path = Path(name)
        if not name or path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
            raise ConfigError(
                f"keeps weights in {name!r}, which is outside of its folder; save the model with its data beside it",
                file=file,
            )
        if not (file.parent / path).is_file():
            raise ConfigError(
                f"keeps weights in {name!r}, which is not there; copy that file beside the model", file=file
            )
