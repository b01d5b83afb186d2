"""Inputs, outputs and gears from the graph itself, for files without the partition that describes them.

Messages: ``GraphDef`` 6 operators; ``OpDef`` 1 name, 2 type, 10 map of attributes, 24 source names, 25 source
indexes, 33 input and 34 output descriptions; ``TensorDescriptor`` 2 dtype, 3 shape, 4 layout, 10 size; ``ShapeDef``
1 dims. Inputs are the operators of type ``Data``, outputs the inputs of ``NetOutput``, gears are kept by ``Case``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from voxrepo_contract.om import wire
from voxrepo_contract.om.definition import AttributeValue, Definition, read_entry
from voxrepo_contract.om.inout import InOut
from voxrepo_contract.om.model import OmTensor
from voxrepo_contract.om.numbering import graph_dtype_name
from voxrepo_contract.om.source import Source
from voxrepo_contract.om.wire import Region

_OPERATORS = 6
_OP_NAME, _OP_TYPE, _OP_ATTRIBUTES, _OP_SOURCE_NAMES, _OP_SOURCE_INDEXES, _OP_INPUTS = 1, 2, 10, 24, 25, 33
_DTYPE, _SHAPE, _LAYOUT, _SIZE = 2, 3, 4, 10
_DATA_TYPES = ("Data", "AippData", "AnnData")
_WHAT = "graph"
_MAX_OUTPUTS = 1024

_INDEX = "index"
_ORIGINAL_DIMS = "_mbatch_origin_input_dims"
_GEAR_COUNT = "_batch_num"
_GEAR_VALUES = "_pred_value_"
_GEAR_KIND = "mbatch_dynamic_type"
_SHAPE_ORDER = "user_designate_shape_order"
_BATCH, _IMAGE, _DIMS = 1, 2, 3
"""Values of the kind of gears."""


@dataclass
class _Operator:
    name: str = ""
    type: str = ""
    attributes: list[Region] = field(default_factory=list)
    inputs: list[Region] = field(default_factory=list)
    source_names: list[wire.Field] = field(default_factory=list)
    source_indexes: list[int] = field(default_factory=list)


def read_graph(source: Source, definition: Definition) -> InOut:
    """Read inputs, outputs and gears of a graph.

    Raises:
        ConfigError: there is no graph, or it does not follow the wire format.
    """
    if definition.graph is None:
        source.refuse("holds neither a description of its inputs nor a graph; it is damaged")
    inputs: list[tuple[int, OmTensor]] = []
    outputs: tuple[OmTensor, ...] = ()
    gears = InOut()
    for entry in wire.fields(source, definition.graph, _WHAT):
        if entry.number != _OPERATORS or entry.wire_type != wire.BYTES:
            continue
        operator = _operator(source, entry.region)
        if operator.type in _DATA_TYPES:
            inputs.append(_input(source, operator, len(inputs)))
        elif operator.type == "NetOutput":
            outputs = _outputs(source, operator, definition.output_names)
        elif operator.type == "Case":
            gears = _gears(source, operator) or gears
    ordered = tuple(tensor for _, tensor in sorted(inputs, key=lambda item: item[0]))
    return InOut(
        ordered, outputs, gears.batch_gears, gears.image_gears, gears.dims_gears, gears.shape_order, gears.output_shapes
    )


def _operator(source: Source, region: Region) -> _Operator:
    operator = _Operator()
    for item in wire.fields(source, region, _WHAT):
        if item.wire_type == wire.BYTES:
            if item.number == _OP_NAME:
                operator.name = wire.text(source, item, "name of an operator", wire.MAX_NAME_BYTES)
            elif item.number == _OP_TYPE:
                operator.type = wire.text(source, item, "type of an operator")
            elif item.number == _OP_ATTRIBUTES:
                operator.attributes.append(item.region)
            elif item.number == _OP_INPUTS:
                operator.inputs.append(item.region)
            elif item.number == _OP_SOURCE_NAMES:
                operator.source_names.append(item)
        if item.number == _OP_SOURCE_INDEXES:
            operator.source_indexes.extend(wire.numbers(source, item, "source indexes"))
    return operator


def _attributes_of(source: Source, operator: _Operator, *names: str) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {}
    for region in operator.attributes:
        read_entry(source, region, lambda key: key in names or key.startswith(_GEAR_VALUES), found)
    return found


def _input(source: Source, operator: _Operator, position: int) -> tuple[int, OmTensor]:
    if not operator.inputs:
        source.refuse(f"{_WHAT}: the input {operator.name!r} has no description; the file is damaged")
    found = _attributes_of(source, operator, _INDEX, _ORIGINAL_DIMS)
    tensor = _tensor(source, operator.inputs[0], operator.name)
    original = found.get(_ORIGINAL_DIMS)
    if isinstance(original, list) and original:
        # with gears the graph has the dims of the largest one
        dims = tuple(dim for dim in original if isinstance(dim, int))
        tensor = OmTensor(tensor.name, tensor.dtype, dims, tensor.format, tensor.size_bytes)
    index = found.get(_INDEX)
    return (index if isinstance(index, int) else position), tensor


def _outputs(source: Source, operator: _Operator, names: list[str]) -> tuple[OmTensor, ...]:
    if len(operator.inputs) > _MAX_OUTPUTS:
        source.refuse(f"{_WHAT}: {len(operator.inputs)} outputs; the file is damaged")
    outputs = []
    for number, region in enumerate(operator.inputs):
        index = operator.source_indexes[number] if number < len(operator.source_indexes) else 0
        if len(names) == len(operator.inputs):
            name = names[number] if ":" in names[number] else f"{names[number]}:{index}"
        else:
            origin = "unknown"
            if number < len(operator.source_names):
                origin = wire.text(source, operator.source_names[number], "name of an operator", wire.MAX_NAME_BYTES)
            name = f"output_{number}_{origin}_{index}"
        outputs.append(_tensor(source, region, name))
    return tuple(outputs)


def _tensor(source: Source, region: Region, name: str) -> OmTensor:
    dtype, layout, size_bytes = 0, "ND", 0
    dims: list[int] = []
    for item in wire.fields(source, region, _WHAT):
        if item.number == _DTYPE and item.wire_type == wire.VARINT:
            dtype = item.value
        elif item.number == _SIZE and item.wire_type == wire.VARINT:
            size_bytes = max(wire.signed(item.value), 0)
        elif item.number == _LAYOUT and item.wire_type == wire.BYTES:
            layout = wire.text(source, item, "format")
        elif item.number == _SHAPE and item.wire_type == wire.BYTES:
            for dim in wire.fields(source, item.region, _WHAT):
                if dim.number == 1:
                    dims.extend(wire.numbers(source, dim, f"dims of {name!r}"))
    return OmTensor(name, graph_dtype_name(dtype), tuple(dims), layout, size_bytes)


def _gears(source: Source, operator: _Operator) -> InOut | None:
    found = _attributes_of(source, operator, _GEAR_COUNT, _GEAR_KIND, _SHAPE_ORDER)
    count, kind, order = found.get(_GEAR_COUNT), found.get(_GEAR_KIND), found.get(_SHAPE_ORDER)
    if not isinstance(count, int) or not isinstance(kind, int):
        return None
    values = []
    for index in range(min(count, len(found))):
        value = found.get(f"{_GEAR_VALUES}{index}")
        if isinstance(value, list) and value:
            values.append(tuple(item for item in value if isinstance(item, int)))
    names = tuple(name for name in order if isinstance(name, str)) if isinstance(order, list) else ()
    if kind == _BATCH:
        return InOut(batch_gears=tuple(value[0] for value in values if value), shape_order=names)
    if kind == _IMAGE:
        return InOut(image_gears=tuple(values), shape_order=names)
    if kind == _DIMS:
        return InOut(dims_gears=tuple(values), shape_order=names)
    return None
