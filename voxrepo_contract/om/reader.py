"""Reading an OM file into an :class:`OmFile`."""

from __future__ import annotations

from pathlib import Path

from voxrepo_contract.om.cmdline import options_of, precision_of, virtual_type_of
from voxrepo_contract.om.definition import Definition
from voxrepo_contract.om.gears import kind_and_gears
from voxrepo_contract.om.graph import read_graph
from voxrepo_contract.om.header import INOUT_INFO, MODEL_DEF, read_header, read_tables
from voxrepo_contract.om.inout import InOut, read_inout
from voxrepo_contract.om.model import GEAR_INPUT, OmFile, Partition, SubModel
from voxrepo_contract.om.source import Source


def read(source: bytes | str | Path, name: str | None = None) -> OmFile:
    """Read what an OM file says of itself.

    Args:
        source: a path, or the file's bytes.
        name: shown in errors, instead of the path.

    Raises:
        ConfigError: it is not an OM file, or not a model of one graph, or damaged; with file, byte and reason.
    """
    with Source.open(source, name) as opened:
        return _read(opened)


def _read(source: Source) -> OmFile:
    header = read_header(source)
    tables = read_tables(source, header)
    definitions = [_definition(source, partitions, index) for index, partitions in enumerate(tables)]
    sub_models = tuple(
        SubModel(index, definition.name, partitions, definition.attributes)
        for index, (partitions, definition) in enumerate(zip(tables, definitions, strict=True))
    )
    described = _described(source, tables[0], definitions[0])
    if not described.inputs and not described.outputs:
        source.refuse("describes neither inputs nor outputs; it is damaged or no model that can be called")
    inputs = tuple(tensor for tensor in described.inputs if tensor.name != GEAR_INPUT)
    hidden = [tensor for tensor in described.inputs if tensor.name == GEAR_INPUT]
    kind, gears = kind_and_gears(source, described, inputs, header.runs_dynamic)
    attributes = definitions[0].attributes
    options = options_of(attributes.atc_cmdline)
    precision, is_default = precision_of(options)
    return OmFile(
        file=source.name,
        size_bytes=source.size_bytes,
        header=header,
        sub_models=sub_models,
        inputs=inputs,
        outputs=described.outputs,
        kind=kind,
        gear_input=hidden[0] if hidden else None,
        gears=gears,
        shape_order=described.shape_order,
        dynamic_outputs=described.output_shapes,
        precision=precision,
        precision_is_default=is_default,
        virtual_type=virtual_type_of(options),
        external_weights=options.get("external_weight", "0") in ("1", "2"),
        attributes=attributes,
    )


def _find(partitions: tuple[Partition, ...], kind: int) -> Partition | None:
    return next((partition for partition in partitions if partition.type == kind), None)


def _definition(source: Source, partitions: tuple[Partition, ...], index: int) -> Definition:
    partition = _find(partitions, MODEL_DEF)
    if partition is None:
        source.refuse(f"model {index + 1} has no definition (partition MODEL_DEF); the file is damaged")
    return Definition(source, partition)


def _described(source: Source, partitions: tuple[Partition, ...], definition: Definition) -> InOut:
    partition = _find(partitions, INOUT_INFO)
    return read_inout(source, partition) if partition is not None else read_graph(source, definition)
