"""Telling files by their first bytes: what is named ``.om`` is often something else."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from voxrepo_contract.om.source import Source

OM_MAGIC = b"IMOD"
EMULATED_MAGIC = b"VOXEMUOM"
HEAD_BYTES = 512
"""How much of a file is looked at."""

FileKind = Literal["om", "emulated_om", "onnx", "zip", "pickle", "pointer", "text", "empty", "unknown"]

_POINTERS = (b"version https://git-lfs.github.com/spec/", b"/annex/objects/")
_WEB_PAGE = (b"<!doctype html", b"<html")
_ONNX_IR_VERSIONS = range(1, 32)
_ONNX_NEXT_TAGS = frozenset((0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42))
"""Tags that may follow ``ir_version`` in a ModelProto: fields 2-4, 6-8 with bytes, 5 with a number."""


def kind_of(head: bytes) -> FileKind:
    """Kind of the file that begins with ``head`` (up to 512 bytes)."""
    if not head:
        return "empty"
    if head.startswith(OM_MAGIC):
        return "om"
    if head.startswith(EMULATED_MAGIC):
        return "emulated_om"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    # protocol 2 and later; earlier ones are text and shown as such
    if len(head) >= 2 and head[0] == 0x80 and 2 <= head[1] <= 5:
        return "pickle"
    if head.startswith(_POINTERS):
        return "pointer"
    if len(head) >= 3 and head[0] == 0x08 and head[1] in _ONNX_IR_VERSIONS and head[2] in _ONNX_NEXT_TAGS:
        return "onnx"
    if _is_text(head):
        return "text"
    return "unknown"


def _is_text(head: bytes) -> bool:
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        # the last character may be cut
        if error.start < len(head) - 3:
            return False
        text = head[: error.start].decode("utf-8")
    return all(character.isprintable() or character in "\t\r\n" for character in text)


def noun_of(head: bytes) -> str:
    """What a file that begins with ``head`` is, as a noun with its article."""
    return {
        "om": "an offline model of Huawei's",
        "emulated_om": "an emulated OM",
        "onnx": "an ONNX graph",
        "zip": "a ZIP file (an OM2 container, or a PyTorch file)",
        "pickle": "a Python pickle",
        "pointer": "a Git LFS pointer or the like, not the file itself",
        "text": "a text file",
        "empty": "an empty file",
        "unknown": "a file of an unknown kind",
    }[kind_of(head)]


def why_not_om(head: bytes, size_bytes: int) -> str:
    """A sentence that says what a file is, if not an OM, and what to do."""
    kind = kind_of(head)
    if kind == "empty":
        return "the file is empty; copy or convert it again"
    if kind == "emulated_om":
        return (
            "is a model for voxrepo's emulator, which no NPU can load; convert the ONNX file for the chip with ATC, "
            "or serve it with --device emulator"
        )
    if kind == "zip":
        if b"data.pkl" in head or b"constants.pkl" in head:
            return "is a PyTorch file (a ZIP with a pickle in it), not an OM; export it to ONNX and convert that"
        return (
            "is a ZIP file, which is what the newer OM2 container is; only the OM format is read: convert the model "
            "again without asking ATC for OM2"
        )
    if kind == "pickle":
        return (
            "is a Python pickle, not an OM; it is never unpickled, since that can run any program. Get the model "
            "itself, or export it to ONNX and convert that"
        )
    if kind == "pointer":
        return (
            "is only a pointer to a file kept elsewhere (Git LFS or git-annex); fetch the file itself, for example "
            "with `git lfs pull`"
        )
    if kind == "onnx":
        return "is an ONNX model, not an OM; name it .onnx to run it on the CPU, or convert it with ATC"
    if kind == "text":
        if head.lstrip().lower().startswith(_WEB_PAGE):
            return "is a web page; the download went wrong, it may need a login. Fetch the file again"
        return f"is plain text of {size_bytes} bytes that begins with {_shown(head)!r}, not an OM; get the file itself"
    return (
        f"does not begin with the mark of an OM file ({OM_MAGIC.decode()}) but with {head[:8].hex(' ')}; "
        "it is damaged, encrypted or something else"
    )


def _shown(head: bytes) -> str:
    text = head[:40].decode("utf-8", "ignore").strip()
    return text.splitlines()[0] if text else ""


def identify(source: bytes | str | Path) -> FileKind:
    """Kind of a file by its first bytes; its name counts for nothing.

    Raises:
        ConfigError: it cannot be read.
    """
    with Source.open(source) as opened:
        return kind_of(opened.head(HEAD_BYTES))
