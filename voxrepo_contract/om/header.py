"""The header of an OM file and its partition tables.

Layout (little-endian): 256 bytes of header; then, once per sub-model, a table of the partitions and their content.
Files written since the format grew to 64 bits have ``model_length`` in the header and wide table entries.
"""

from __future__ import annotations

from voxrepo_contract.om.model import Header, Partition
from voxrepo_contract.om.sniff import HEAD_BYTES, OM_MAGIC, kind_of, why_not_om
from voxrepo_contract.om.source import Cursor, Source, printable

HEADER_BYTES = 256
MAX_SUB_MODELS = 4096
MAX_PARTITIONS = 64
"""CANN's loader accepts eight."""

MODEL_DEF = 0
WEIGHTS = 1
INOUT_INFO = 8
PARTITION_NAMES = {
    MODEL_DEF: "MODEL_DEF",
    WEIGHTS: "WEIGHTS",
    2: "TASK_INFO",
    3: "TBE_KERNELS",
    4: "CUST_AICPU_KERNELS",
    5: "SO_BINS",
    6: "FLOW_MODEL",
    7: "FLOW_SUBMODEL",
    INOUT_INFO: "MODEL_INOUT_INFO",
    9: "STATIC_TASK",
    10: "DYNAMIC_TASK",
    11: "TASK_PARAM",
    12: "TILING_DATA",
    20: "PRE_MODEL_DESC",
    21: "PRE_MODEL_SQE",
    22: "PRE_KERNEL_ARGS",
    23: "PRE_MODEL_DESC_EXTEND",
    24: "BUNDLE_MODEL_INFO",
    25: "BUNDLE_VAR",
    26: "CUSTOM_OPS",
}

_GRAPH_MODEL_TYPES = (0, 1)
_OTHER_MODEL_TYPES = {
    2: "a tiny task model for small devices",
    3: "a flow model, a pipeline of several models",
    4: "a lite model for small devices",
    5: "a bundle of models that share weights",
}


def read_header(source: Source) -> Header:
    """Read and check the header.

    Raises:
        ConfigError: the file is no OM, or one of a kind that cannot be run, or its length is wrong.
    """
    head = source.head(HEAD_BYTES)
    if kind_of(head) != "om":
        source.refuse(why_not_om(head, source.size_bytes), 0)
    if source.size_bytes < HEADER_BYTES:
        source.refuse(
            f"is too short for an OM: {source.size_bytes} bytes, its header alone takes {HEADER_BYTES}; copy it again",
            source.size_bytes,
        )
    cursor = Cursor(source, len(OM_MAGIC), HEADER_BYTES - len(OM_MAGIC), "header")
    header_bytes = cursor.u32("header size")
    if header_bytes != HEADER_BYTES:
        source.refuse(f"the header says that it is {header_bytes} bytes long, it is always {HEADER_BYTES}; damaged", 4)
    version = cursor.u32("version")
    cursor.take(64, "checksum")
    old_length = cursor.u32("length")
    encrypted, _, model_type, _ = cursor.take(4, "flags")
    name = _text(cursor.take(32, "name"))
    cursor.take(4 + 32 + 4, "ops, user text, IR version")
    sub_model_count = cursor.u32("number of models")
    platform = _text(cursor.take(20, "platform version"))
    cursor.take(4, "platform type")
    new_length = cursor.u64("model length")
    needs_host_check, is_dynamic = cursor.take(2, "flags")
    if encrypted:
        source.refuse("is encrypted; only the vendor of the model can decrypt it, get it unencrypted", 80)
    if model_type not in _GRAPH_MODEL_TYPES:
        kind = _OTHER_MODEL_TYPES.get(model_type, f"of the unknown model type {model_type}")
        source.refuse(f"is {kind}; only models of one graph can be served, convert the ONNX file with ATC", 82)
    content_bytes = new_length or old_length
    _check_length(source, content_bytes, 184 if new_length else 76)
    if sub_model_count > MAX_SUB_MODELS:
        source.refuse(f"says that it holds {sub_model_count} models; it is damaged", 156)
    return Header(
        version=version,
        model_type=model_type,
        name=name,
        # files from before there could be several say 0
        sub_model_count=max(sub_model_count, 1),
        content_bytes=content_bytes,
        wide_tables=new_length != 0,
        needs_host_check=needs_host_check == 1,
        is_dynamic=is_dynamic == 1,
        platform=platform,
    )


def _check_length(source: Source, content_bytes: int, offset: int) -> None:
    expected = HEADER_BYTES + content_bytes
    if expected > source.size_bytes:
        source.refuse(
            f"is truncated: its header promises {expected} bytes, there are {source.size_bytes}; copy it again", offset
        )
    if expected < source.size_bytes:
        source.refuse(
            f"is {source.size_bytes} bytes long, its header says {expected}; something was appended or the header is "
            "damaged: copy it again",
            offset,
        )


def read_tables(source: Source, header: Header) -> list[tuple[Partition, ...]]:
    """The partitions of each sub-model.

    Raises:
        ConfigError: a table or a partition reaches out of the file.
    """
    tables: list[tuple[Partition, ...]] = []
    start = HEADER_BYTES
    for index in range(header.sub_model_count):
        what = f"partition table of model {index + 1} of {header.sub_model_count}"
        count = Cursor(source, start, 4, what).u32("count")
        if not 0 < count <= MAX_PARTITIONS:
            source.refuse(f"{what}: lists {count} partitions, it must be 1 to {MAX_PARTITIONS}; damaged", start)
        entries = start + (8 if header.wide_tables else 4)
        cursor = Cursor(source, entries, count * (24 if header.wide_tables else 12), what)
        base = entries + cursor.left
        partitions = []
        for _ in range(count):
            at = cursor.offset
            partition = _entry(cursor, base, header.wide_tables)
            if partition.offset + partition.size_bytes > source.size_bytes:
                source.refuse(
                    f"{what}: {partition.name} would end at byte {partition.offset + partition.size_bytes}, the file "
                    f"ends at {source.size_bytes}; it is damaged",
                    at,
                )
            partitions.append(partition)
        tables.append(tuple(partitions))
        start = max(partition.offset + partition.size_bytes for partition in partitions)
    return tables


def _entry(cursor: Cursor, base: int, wide: bool) -> Partition:
    kind = cursor.u32("type")
    if wide:
        cursor.take(4, "padding")
        offset, size_bytes = cursor.u64("offset"), cursor.u64("size")
    else:
        offset, size_bytes = cursor.u32("offset"), cursor.u32("size")
    return Partition(kind, PARTITION_NAMES.get(kind, f"TYPE_{kind}"), base + offset, size_bytes)


def _text(raw: bytes) -> str:
    return printable(raw.split(b"\0", 1)[0])
