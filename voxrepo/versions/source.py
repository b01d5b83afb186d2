"""A new version's folder, made of what the user gives: a whole version, or files in place of the current one's."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from voxrepo_contract.errors import ConfigError, InvalidArgument
from voxrepo_contract.foreign_om import read_om_facts
from voxrepo_contract.onnx_tensors import read_onnx_tensors
from voxrepo_contract.stage import (
    STAGE_FILE,
    AnyStage,
    Dim,
    FileEntry,
    GraphSpec,
    GraphTensor,
    read_stage,
    sha256_of,
    verify_files,
)

_GRAPH_SUFFIXES = {".onnx": "cpu", ".om": "npu"}
_OPTIONAL_INPUTS = frozenset({"mask"})
"""Inputs that a graph may have or not, whatever the current version's has."""


@dataclass(frozen=True)
class Base:
    """The version that a new one is made from or compared with.

    Attributes:
        version: its number.
        folder: where it lies.
        spec: its ``stage.yaml``.
    """

    version: int
    folder: Path
    spec: AnyStage


@dataclass(frozen=True)
class Staged:
    """A version's folder that is complete but for quality and provenance.

    Attributes:
        spec: its ``stage.yaml``, not yet written.
        given: files that came from the user: name as given, name in the folder.
        completed: whether the rest was taken from the current version.
    """

    spec: AnyStage
    given: dict[str, str]
    completed: bool


@dataclass(frozen=True)
class _Tensor:
    name: str
    dtype: str
    dims: tuple[int | str | None, ...] | None


@dataclass(frozen=True)
class _Graph:
    device: Literal["cpu", "npu"]
    inputs: tuple[_Tensor, ...]
    outputs: tuple[_Tensor, ...]
    gears: list[dict[str, int]]


def stage_files(source: Path, folder: Path, base: Base, graph: str | None) -> Staged:
    """Fill the folder of a new version; a failure may leave files in it.

    Args:
        source: folder with ``stage.yaml`` and its files; or a file, or a folder of files, that replace those of the
            current version.
        folder: empty.
        base: the current version.
        graph: the graph that a file is, where that does not follow from its name or tensors.

    Raises:
        InvalidArgument: it is not clear what a file is.
        ConfigError: a file is wrong, or does not fit what it replaces; both values are in the message.
        OSError: the folder cannot be written.
    """
    if source.is_dir() and (source / STAGE_FILE).is_file():
        if graph is not None:
            raise InvalidArgument(f"--graph says what a single file is, and {source} has a {STAGE_FILE} that says so")
        return _whole(source, folder, base)
    if source.is_dir():
        files = sorted(entry for entry in source.iterdir() if entry.is_file() and not entry.name.startswith("."))
        if graph is not None and len(files) != 1:
            raise InvalidArgument(f"--graph says what a single file is, and {source} holds {len(files)}")
    elif source.is_file():
        files = [source]
    else:
        raise ConfigError("there is no such file or folder", file=source)
    if not files:
        raise ConfigError(f"the folder holds neither a {STAGE_FILE} nor any other file", file=source)
    return _replaced(files, folder, base, graph)


def _whole(source: Path, folder: Path, base: Base) -> Staged:
    spec = read_stage(source)
    if spec.stage != base.spec.stage:
        raise ConfigError(f"stage: is {spec.stage!r}, expected {base.spec.stage!r}", file=source / STAGE_FILE)
    names = _listed(spec.graphs.values(), spec.files.values())
    for name in names:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
        else:
            raise ConfigError(f"{STAGE_FILE} lists it, and it is missing", file=source / name)
    try:
        verify_files(folder, spec)
    except ConfigError as error:
        raise ConfigError(error.problem, file=source / error.file.name if error.file else source) from error
    for entry in spec.graphs.values():
        _check_external(source / entry.file, names)
    return Staged(spec, {name: name for name in names}, completed=False)


def _replaced(files: Sequence[Path], folder: Path, base: Base, graph: str | None) -> Staged:
    graphs, entries = dict(base.spec.graphs), dict(base.spec.files)
    given: dict[str, str] = {}
    taken: dict[str, Path] = {}
    for file in files:
        key, found = _place_of(file, base, graph)
        if key in taken:
            raise InvalidArgument(f"{taken[key]} and {file} would both be {key!r}; give one of them")
        taken[key] = file
        if found is not None:
            _check_external(file, [])
            name = f"{key}{file.suffix.lower()}"
            graphs[key] = _fitted(file, found, base, key, name)
        else:
            name = entries[key].file
            entries[key] = FileEntry(file=name, sha256=sha256_of(file))
        shutil.copyfile(file, folder / name)
        given[file.name] = name
    for name in _listed(graphs.values(), entries.values()):
        if not (folder / name).exists():
            shutil.copyfile(base.folder / name, folder / name)
    interface = base.spec.interface
    inventory = entries.get("inventory")
    if inventory is not None and inventory != base.spec.files.get("inventory"):
        interface = interface.model_copy(update={"inventory_sha256": inventory.sha256})
    spec = base.spec.model_copy(
        update={"graphs": graphs, "files": entries, "interface": interface, "quality": {}, "provenance": {}}
    )
    try:
        verify_files(folder, spec)  # the given file may have changed since its hash was taken
    except ConfigError as error:
        raise ConfigError(f"changed while it was copied: {error.problem}", file=files[0]) from error
    return Staged(spec, given, completed=True)


def _listed(graphs: Iterable[GraphSpec], entries: Iterable[FileEntry]) -> list[str]:
    return [graph.file for graph in graphs] + [entry.file for entry in entries]


def _place_of(file: Path, base: Base, graph: str | None) -> tuple[str, _Graph | None]:
    """What a file is in the version: its key, and what it says if it is a graph."""
    if file.suffix.lower() not in _GRAPH_SUFFIXES:
        for key, entry in base.spec.files.items():
            if entry.file == file.name:
                return key, None
        names = ", ".join(entry.file for entry in base.spec.files.values()) or "none"
        raise InvalidArgument(
            f"{file} is neither a graph (.onnx, .om) nor named as a file of version {base.version} ({names}); give a "
            f"folder with a {STAGE_FILE}"
        )
    found = _read_graph(file)
    graphs = base.spec.graphs
    if not graphs:
        raise InvalidArgument(f"{file} is a graph, and the stage {base.spec.stage} has none")
    if graph is not None:
        if graph not in graphs:
            raise InvalidArgument(f"--graph {graph!r}: version {base.version} has {', '.join(graphs)}")
        return graph, found
    if len(graphs) == 1:
        return next(iter(graphs)), found
    named = [key for key, spec in graphs.items() if key == file.stem or spec.file == file.name]
    alike = [key for key, spec in graphs.items() if _names(found) == _names_of(spec)]
    choice = named or alike
    if len(choice) != 1:
        raise InvalidArgument(f"{file} may be any of the graphs {', '.join(graphs)}; say which with --graph")
    return choice[0], found


def _names(graph: _Graph) -> tuple[set[str], set[str]]:
    return {tensor.name for tensor in graph.inputs} - _OPTIONAL_INPUTS, {tensor.name for tensor in graph.outputs}


def _names_of(graph: GraphSpec) -> tuple[set[str], set[str]]:
    return {tensor.name for tensor in graph.inputs} - _OPTIONAL_INPUTS, {tensor.name for tensor in graph.outputs}


def _read_graph(file: Path) -> _Graph:
    if file.suffix.lower() == ".om":
        facts = read_om_facts(file)
        sides = [tuple(_Tensor(t.name, t.dtype, t.dims) for t in side) for side in (facts.inputs, facts.outputs)]
        return _Graph("npu", sides[0], sides[1], [dict(gear) for gear in facts.gears])
    tensors = read_onnx_tensors(file)
    sides = [tuple(_Tensor(t.name, t.dtype, t.dims) for t in side) for side in (tensors.inputs, tensors.outputs)]
    return _Graph("cpu", sides[0], sides[1], [])


def _check_external(file: Path, listed: Sequence[str]) -> None:
    if file.suffix.lower() == ".onnx":
        missing = [name for name in read_onnx_tensors(file).external_files if name not in listed]
        if missing:
            raise ConfigError(
                f"keeps weights in another file, {missing[0]!r}; save the graph with its weights inside, or give a "
                f"folder with a {STAGE_FILE} that lists that file under files",
                file=file,
            )


def _fitted(file: Path, graph: _Graph, base: Base, key: str, name: str) -> GraphSpec:
    """The description of a graph that takes the place of the current version's graph ``key``."""
    old = base.spec.graphs[key]
    renamed: dict[str, str] = {}
    sides = []
    for side, mine, theirs in (("input", graph.inputs, old.inputs), ("output", graph.outputs, old.outputs)):
        expected = {tensor.name: tensor for tensor in theirs}
        present = {tensor.name for tensor in mine}
        for missing in sorted(set(expected) - present - _OPTIONAL_INPUTS):
            raise ConfigError(
                f"has no {side} {missing!r} (but {', '.join(sorted(present)) or 'none'}), and the graph {key!r} of "
                f"version {base.version} has {', '.join(expected)}",
                file=file,
            )
        tensors = []
        for tensor in mine:
            like = expected.get(tensor.name)
            if like is None and not (side == "input" and tensor.name in _OPTIONAL_INPUTS):
                raise ConfigError(
                    f"has an {side} {tensor.name!r}, and the graph {key!r} of version {base.version} has only "
                    f"{', '.join(expected)}",
                    file=file,
                )
            tensors.append(_fitted_tensor(file, side, tensor, like, base.version, renamed))
        sides.append(tensors)
    gears = [{renamed.get(axis, axis): size for axis, size in gear.items()} for gear in graph.gears]
    return GraphSpec(
        file=name, sha256=sha256_of(file), device=graph.device, inputs=sides[0], outputs=sides[1], gears=gears
    )


def _fitted_tensor(
    file: Path, side: str, tensor: _Tensor, like: GraphTensor | None, version: int, renamed: dict[str, str]
) -> GraphTensor:
    """A tensor with the axis names of the current version, to which the stage's program goes."""
    if like is None:
        named = [f"{tensor.name}.{axis}" if dim is None else dim for axis, dim in enumerate(tensor.dims or ())]
        return GraphTensor.model_validate({"name": tensor.name, "dtype": tensor.dtype, "dims": named})
    found = tuple(like.dims) if tensor.dims is None else tensor.dims
    clashes = len(found) != len(like.dims) or any(
        isinstance(mine, int) and isinstance(theirs, int) and mine != theirs
        for mine, theirs in zip(found, like.dims, strict=True)
    )
    if clashes or tensor.dtype != like.dtype:
        raise ConfigError(
            f"{side} {tensor.name!r} is {tensor.dtype} {_shown(found)}, and {like.dtype} {_shown(like.dims)} in "
            f"version {version}",
            file=file,
        )
    dims: list[Dim] = []
    for mine, theirs in zip(found, like.dims, strict=True):
        if isinstance(mine, str) and isinstance(theirs, str):
            renamed[mine] = theirs
        dims.append(mine if isinstance(mine, int) else theirs)
    return GraphTensor(name=tensor.name, dtype=like.dtype, dims=dims)


def _shown(dims: Sequence[int | str | None]) -> str:
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in dims) + "]"
