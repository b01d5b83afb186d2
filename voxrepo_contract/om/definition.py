"""The graph's protobuf (``MODEL_DEF``): what the builder wrote about the model, found without reading the graph.

Message ``ModelDef``: 1 name, 7 graph, 11 map of attributes. A map entry: 1 key, 2 value. An attribute's value: 1 list,
2 text, 3 whole number; its list: 2 texts, 3 whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Union

from voxrepo_contract.om import wire
from voxrepo_contract.om.model import Attributes, Partition
from voxrepo_contract.om.source import Source, printable
from voxrepo_contract.om.wire import Region

NAME, GRAPH, ATTRIBUTES = 1, 7, 11
_KEY, _VALUE = 1, 2
_LIST, _TEXT, _NUMBER = 1, 2, 3
_WHAT = "model definition"
_MAX_LIST_BYTES = 4 << 20

AttributeValue = Union[str, int, "list[str]", "list[int]", None]

_TEXTS = ("soc_version", "opp_version", "atc_version", "atc_cmdline", "framework_type", "host_env_os", "host_env_cpu")
_SIZES = ("memory_size", "weight_size", "stream_num")
_OM_INFO = "om_info_list"
_COMPRESSED = "om_compress_version"
OUTPUT_NAMES = "attr_model_out_nodes_name"
_WANTED = frozenset((*_TEXTS, *_SIZES, _OM_INFO, _COMPRESSED, OUTPUT_NAMES))


class Definition:
    """The parts of a model definition that are of use.

    Attributes:
        name: of the model.
        attributes: what the builder wrote.
        output_names: names of the outputs, empty if not written.
        graph: where the graph is; None if there is none.
    """

    def __init__(self, source: Source, partition: Partition) -> None:
        """Find them.

        Raises:
            ConfigError: the partition does not follow the wire format.
        """
        self.name = ""
        self.graph: Region | None = None
        found: dict[str, AttributeValue] = {}
        message = Region(partition.offset, partition.offset + partition.size_bytes)
        for field in wire.fields(source, message, _WHAT):
            if field.wire_type != wire.BYTES:
                continue
            if field.number == NAME:
                self.name = wire.text(source, field, "name of the model")
            elif field.number == GRAPH and self.graph is None:
                self.graph = field.region
            elif field.number == ATTRIBUTES:
                read_entry(source, field.region, _WANTED.__contains__, found)
        self.attributes = _attributes(found)
        names = found.get(OUTPUT_NAMES)
        self.output_names = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def read_entry(source: Source, entry: Region, wanted: Callable[[str], bool], found: dict[str, AttributeValue]) -> None:
    """Read one entry of a map of attributes into ``found`` if its key is ``wanted``."""
    key, value = "", None
    for field in wire.fields(source, entry, _WHAT):
        if field.wire_type == wire.BYTES and field.number == _KEY and field.region.size_bytes <= wire.MAX_NAME_BYTES:
            key = printable(source.read(field.region.start, field.region.size_bytes, _WHAT))
        elif field.wire_type == wire.BYTES and field.number == _VALUE:
            value = field.region
    if value is not None and wanted(key):
        found[key] = _value(source, value, key)


def _value(source: Source, region: Region, key: str) -> AttributeValue:
    for field in wire.fields(source, region, _WHAT):
        if field.number == _TEXT and field.wire_type == wire.BYTES:
            return wire.text(source, field, key)
        if field.number == _NUMBER and field.wire_type == wire.VARINT:
            return wire.signed(field.value)
        if field.number == _LIST and field.wire_type == wire.BYTES:
            return _list(source, field.region, key)
    return None


def _list(source: Source, region: Region, key: str) -> list[str] | list[int]:
    if region.size_bytes > _MAX_LIST_BYTES:
        source.refuse(f"{key}: the list is {region.size_bytes} bytes long; the file is damaged", region.start)
    texts: list[str] = []
    numbers: list[int] = []
    for field in wire.fields(source, region, _WHAT):
        if field.number == _TEXT and field.wire_type == wire.BYTES:
            texts.append(wire.text(source, field, key))
        elif field.number == _NUMBER:
            numbers.extend(wire.numbers(source, field, key))
    return texts or numbers


def _attributes(found: dict[str, AttributeValue]) -> Attributes:
    texts = {key: value if isinstance(value, str) else "" for key, value in found.items()}
    sizes = {key: value if isinstance(value, int) and value >= 0 else None for key, value in found.items()}
    om_info = found.get(_OM_INFO)
    return Attributes(
        soc_version=texts.get("soc_version", ""),
        opp_version=texts.get("opp_version", ""),
        atc_version=texts.get("atc_version", ""),
        atc_cmdline=texts.get("atc_cmdline", ""),
        framework=texts.get("framework_type", ""),
        host_os=texts.get("host_env_os", ""),
        host_cpu=texts.get("host_env_cpu", ""),
        memory_bytes=sizes.get("memory_size"),
        weight_bytes=sizes.get("weight_size"),
        stream_count=sizes.get("stream_num"),
        om_info=tuple(item for item in om_info if isinstance(item, int)) if isinstance(om_info, list) else (),
        compressed_attributes=bool(found.get(_COMPRESSED)),
    )
