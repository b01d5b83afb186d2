"""Writes OM files byte by byte from the published layout, independently of the reader."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ACL = {"FP32": 0, "FP16": 1, "INT8": 2, "INT32": 3, "UINT8": 4, "INT64": 9, "BOOL": 12}
GRAPH = {"FP32": 1, "FP16": 2, "INT8": 3, "UINT8": 4, "INT32": 7, "INT64": 8, "BOOL": 11}
COMMAND = (
    "/usr/local/Ascend/bin/atc.bin --model=decoder.onnx --framework=5 --output=decoder --soc_version=Ascend910B3 "
    "--input_format=ND --input_shape=latent:1,192,-1;mask:1,1,-1 --dynamic_dims=64,64;128,128 "
    "--precision_mode_v2=origin"
)


@dataclass
class Tensor:
    name: str
    dims: Sequence[int]
    dtype: str = "FP32"
    size: int = 0
    format: int = 2
    ranges: Sequence[tuple[int, int]] = ()


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def blob(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def number(number_: int, value: int) -> bytes:
    return varint(number_ << 3) + varint(value)


def attribute_value(value: Any) -> bytes:
    if isinstance(value, str):
        return blob(2, value.encode())
    if isinstance(value, int):
        return number(3, value)
    if all(isinstance(item, str) for item in value):
        return blob(1, b"".join(blob(2, item.encode()) for item in value))
    # packed, as proto3 writes it
    return blob(1, blob(3, b"".join(varint(item) for item in value)) + number(20, 2))


def attributes(number_: int, values: Mapping[str, Any]) -> bytes:
    return b"".join(blob(number_, blob(1, key.encode()) + blob(2, attribute_value(v))) for key, v in values.items())


def descriptor(tensor: Tensor) -> bytes:
    shape = blob(1, b"".join(varint(dim) for dim in tensor.dims))
    return number(2, GRAPH[tensor.dtype]) + blob(3, shape) + blob(4, b"ND") + number(10, tensor.size)


def operator(name: str, kind: str, **parts: Any) -> bytes:
    out = blob(1, name.encode()) + blob(2, kind.encode()) + attributes(10, parts.get("attributes", {}))
    out += b"".join(blob(24, source.encode()) for source in parts.get("sources", ()))
    out += b"".join(number(25, 0) for _ in parts.get("sources", ()))
    return out + b"".join(blob(33, descriptor(tensor)) for tensor in parts.get("inputs", ()))


def graph(operators: Sequence[bytes]) -> bytes:
    return blob(1, b"graph") + b"".join(blob(6, item) for item in operators)


def definition(
    name: str = "decoder", values: Mapping[str, Any] | None = None, operators: Sequence[bytes] = ()
) -> bytes:
    return blob(1, name.encode()) + number(2, 1) + blob(7, graph(operators)) + attributes(11, values or {})


def texts(items: Sequence[str]) -> bytes:
    raw = [item.encode() for item in items]
    return struct.pack("<I", len(raw)) + b"".join(struct.pack("<I", len(r)) for r in raw) + b"".join(raw)


def lists(items: Sequence[Sequence[int]]) -> bytes:
    lengths = b"".join(struct.pack("<I", len(item)) for item in items)
    return struct.pack("<I", len(items)) + lengths + b"".join(struct.pack(f"<{len(i)}q", *i) for i in items)


def tensors(items: Sequence[Tensor]) -> bytes:
    out = struct.pack("<I", len(items))
    for item in items:
        name, dims, ranges = item.name.encode(), list(item.dims), [edge for pair in item.ranges for edge in pair]
        out += struct.pack(
            "<QiiIIII",
            item.size,
            item.format,
            ACL[item.dtype],
            len(name),
            8 * len(dims),
            8 * len(dims),
            8 * len(ranges),
        )
        out += name + struct.pack(f"<{2 * len(dims) + len(ranges)}q", *dims, *dims, *ranges)
    return out


def inout(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    *,
    batches: Sequence[int] = (),
    images: Sequence[Sequence[int]] = (),
    dims: Sequence[Sequence[int]] = (),
    order: Sequence[str] = (),
    output_shapes: Sequence[str] = (),
    extra: Sequence[tuple[int, bytes]] = (),
) -> bytes:
    blocks: list[tuple[int, bytes]] = [(0, tensors(inputs)), (1, tensors(outputs))]
    if batches:
        blocks.append((2, struct.pack(f"<I{len(batches)}q", len(batches), *batches)))
    if images:
        blocks.append((3, lists(images)))
    if dims:
        blocks.append((4, lists(dims)))
    if output_shapes:
        blocks.append((5, texts(output_shapes)))
    if order:
        blocks.append((6, texts(order)))
    blocks.extend(extra)
    return b"".join(struct.pack("<II", kind, len(content)) + content for kind, content in blocks)


@dataclass
class Om:
    """An OM file to be written; ``models`` are lists of (partition type, content)."""

    models: list[list[tuple[int, bytes]]]
    wide: bool = True
    version: int = 0x20000000
    model_type: int = 0
    encrypted: int = 0
    name: bytes = b"decoder"
    model_num: int | None = None
    host_check: int = 0
    dynamic: int = 0
    header: dict[int, bytes] = field(default_factory=dict)
    """Bytes to put over the header, by offset."""

    def content(self) -> bytes:
        out = b""
        for partitions in self.models:
            table, offset = b"", 0
            for kind, data in partitions:
                entry = "<I4xQQ" if self.wide else "<III"
                table += struct.pack(entry, kind, offset, len(data))
                offset += len(data)
            out += struct.pack("<I4x" if self.wide else "<I", len(partitions)) + table
            out += b"".join(data for _, data in partitions)
        return out

    def write(self) -> bytes:
        content = self.content()
        head = bytearray(256)
        struct.pack_into("<4sII", head, 0, b"IMOD", 256, self.version)
        struct.pack_into("<IBBBB", head, 76, 0 if self.wide else len(content), self.encrypted, 0, self.model_type, 0)
        head[84 : 84 + len(self.name)] = self.name
        struct.pack_into("<I", head, 156, len(self.models) if self.model_num is None else self.model_num)
        struct.pack_into("<QBB", head, 184, len(content) if self.wide else 0, self.host_check, self.dynamic)
        for offset, data in self.header.items():
            head[offset : offset + len(data)] = data
        return bytes(head) + content


def decoder_values(**changes: Any) -> dict[str, Any]:
    """Attributes as ATC writes them."""
    values: dict[str, Any] = {
        "soc_version": "Ascend910B3",
        "opp_version": "7.6.0.1.220",
        "atc_version": "8.0.RC3",
        "atc_cmdline": COMMAND,
        "framework_type": "5",
        "memory_size": 1 << 20,
        "weight_size": 4096,
        "stream_num": 2,
        "om_info_list": [4096, 1000, 0, 500, 0],
        "some_other_list": ["a", "b"],
    }
    return {**values, **changes}


GEAR_INPUT = Tensor("ascend_mbatch_shape_data", [2], "INT64", 16)


def dims_gears(wide: bool = True, **values: Any) -> Om:
    """A decoder with two dims gears; its second input stands first in ``--input_shape``."""
    described = inout(
        [Tensor("latent", [1, 192, -1], size=98304), Tensor("mask", [1, 1, -1], size=512), GEAR_INPUT],
        [Tensor("features:0", [1, 80, 128], size=40960)],
        dims=[[64, 64], [128, 128]],
        order=["mask", "latent"],
        output_shapes=["0,0,1,80,64", "1,0,1,80,128"],
    )
    weights = bytes(range(256)) * 16
    return Om([[(8, described), (0, definition(values=decoder_values(**values))), (1, weights), (2, b"tasks")]], wide)


def batch_gears() -> Om:
    described = inout(
        [Tensor("x", [-1, 80], size=2560), GEAR_INPUT], [Tensor("y:0", [8, 4])], batches=[1, 4, 8], order=["x"]
    )
    return Om([[(0, definition(values=decoder_values())), (8, described)]])


def image_gears() -> Om:
    described = inout(
        [Tensor("image", [1, 3, -1, -1]), GEAR_INPUT], [Tensor("y:0", [1, 10])], images=[[224, 224], [448, 448]]
    )
    return Om([[(0, definition(values=decoder_values())), (8, described)]])


def static(**header: Any) -> Om:
    described = inout([Tensor("x", [1, 80], "FP16", 160)], [Tensor("y:0", [1, 4], size=16)])
    return Om([[(0, definition(values=decoder_values())), (8, described)]], **header)


def ranged() -> Om:
    """A dynamic model in three sub-models, shapes within ranges."""
    described = inout(
        [Tensor("ids", [1, -1], "INT64", 4096, ranges=[(1, 1), (1, 512)])],
        [Tensor("y:0", [1, -1], ranges=[(1, 1), (1, -1)])],
    )
    values = decoder_values(atc_cmdline="atc --model=a.onnx --framework=5 --input_shape=ids:1,1~512")
    sub = [(0, definition("sub", {"memory_size": 10240})), (1, bytes(16))]
    return Om([[(8, described), (0, definition(values=values)), (3, b"kernel")], sub, sub], dynamic=1)


def undescribed(gears: bool = False) -> Om:
    """A file of an old CANN: no description of inputs and outputs, only the graph."""
    dims = {"_mbatch_origin_input_dims": [1, -1]} if gears else {}
    operators = [
        # out of order: the attribute counts
        operator("second", "Data", inputs=[Tensor("", [1, 64])], attributes={"index": 1, **dims}),
        operator("first", "Data", inputs=[Tensor("", [1, 4], "INT64", 32)], attributes={"index": 0}),
        operator("add", "Add", inputs=[Tensor("", [1, 4])]),
        operator("NetOutput", "NetOutput", inputs=[Tensor("", [1, 9], "FP16")], sources=["add"]),
    ]
    if gears:
        gear = {"_batch_num": 2, "_pred_value_0": [32], "_pred_value_1": [64], "mbatch_dynamic_type": 3}
        operators.append(
            operator("case", "Case", attributes={**gear, "user_designate_shape_order": ["first", "second"]})
        )
    model = definition("old", decoder_values(), operators)
    return Om([[(0, model), (2, b"tasks")]], wide=False, version=0x10000000, model_num=0)


EVERY = {
    "dims gears": dims_gears,
    "dims gears, 32-bit tables": lambda: dims_gears(wide=False),
    "batch gears": batch_gears,
    "image gears": image_gears,
    "static": static,
    "range": ranged,
    "undescribed": undescribed,
    "undescribed, gears": lambda: undescribed(gears=True),
}
