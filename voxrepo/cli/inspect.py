"""``voxrepo inspect``: what a model file says of itself. No NPU is needed, nothing is run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from voxrepo.cli.inspect_operators import describe_for_chip, describe_log, show_for_chip, show_log, why_it_fails
from voxrepo.cli.output import JsonOption, console, fail, print_json, shows_errors
from voxrepo.importers.requirements import require_onnx
from voxrepo_contract import emulated_om, om
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.onnx_tensors import read_onnx_tensors

EMULATOR_ONLY = "emulator only: no NPU can load this file"
_KINDS = {
    "static": "one fixed shape",
    "batch_gears": "gears of batch sizes",
    "dims_gears": "gears of joint sizes",
    "image_gears": "gears of image sizes (not served)",
    "range": "ranges of shapes",
}


@shows_errors
def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An .om or .onnx file, or a log of atc (.log).")],
    soc: Annotated[
        str,
        typer.Option(
            "--soc",
            help="Also say whether an .om file runs on this chip, or which operators of an .onnx file it has, which "
            "are replaced and which will fail, e.g. Ascend310P3.",
        ),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Show tensors, gears, chip, versions, precision and sizes of a model file, or what a log of atc means.

    Exit status: 0 done, 1 the file cannot be read as a model or does not fit --soc, 2 wrong usage.
    """
    if file.suffix == ".log":
        log = describe_log(file)
        if as_json:
            print_json(log)
        else:
            show_log(log)
        return
    kind = om.identify(file)
    if kind == "emulated_om":
        found = describe_emulated(file, soc)
    elif kind == "onnx":
        found = describe_onnx(file, soc)
    elif kind == "om" or file.suffix != ".onnx":
        # of a file of neither kind, the reader says what it is
        found = describe_om(om.read(file), soc)
    else:
        read_onnx_tensors(file)
        raise ConfigError("is not an ONNX model", file=file)
    if as_json:
        print_json(found)
    else:
        _show(found)
    problems: Sequence[str] = found.get("does_not_fit", ())
    if problems:
        raise fail(f"{file} does not run on {soc}: {'; '.join(problems)}")


def describe_om(read: om.OmFile, soc: str = "") -> dict[str, Any]:
    """An offline model as plain values; with ``soc``, what speaks against running it on that chip."""
    attributes = read.attributes
    found: dict[str, Any] = {
        "file": read.file,
        "format": "om",
        "emulator_only": False,
        "name": read.header.name or read.sub_models[0].name,
        "kind": read.kind,
        "inputs": [_tensor(tensor) for tensor in read.inputs],
        "outputs": [_tensor(tensor) for tensor in read.outputs],
        "gears": [{name: list(dims) for name, dims in gear.items()} for gear in read.gears],
        "input_shape_order": list(read.shape_order),
        "soc": read.soc,
        "precision": read.precision,
        "precision_is_default": read.precision_is_default,
        "cann_version": attributes.atc_version,
        "opp_version": attributes.opp_version,
        "host": {
            "os": attributes.host_os,
            "cpu": attributes.host_cpu,
            "bound_to_it": read.header.needs_host_check,
        },
        "virtual_type": read.virtual_type,
        "external_weights": read.external_weights,
        "dynamic_executor": read.header.runs_dynamic,
        "file_bytes": read.size_bytes,
        "weights_bytes": read.weight_bytes,
        "work_bytes": read.memory_bytes,
        "streams": attributes.stream_count,
        "sub_models": [
            {"name": sub.name, "partitions": {part.name: part.size_bytes for part in sub.partitions}}
            for sub in read.sub_models
        ],
        "command": attributes.atc_cmdline,
    }
    if soc:
        found["does_not_fit"] = list(om.check_fits(read, soc))
    return found


def describe_emulated(file: Path, soc: str = "") -> dict[str, Any]:
    """An emulator's model as plain values. The whole file is read and its checksum checked."""
    header = emulated_om.read(file).header
    found: dict[str, Any] = {
        "file": str(file),
        "format": "emulated_om",
        "emulator_only": True,
        "name": header.name,
        "kind": header.kind,
        "inputs": [_tensor(tensor) for tensor in header.inputs],
        "outputs": [_tensor(tensor) for tensor in header.outputs],
        "gears": [{name: list(dims) for name, dims in gear.items()} for gear in header.gears],
        "input_shape_order": list(header.input_order),
        "soc": header.soc,
        "precision": header.precision,
        "precision_is_default": False,
        "cann_version": header.cann_version,
        "opp_version": header.opp_version,
        "virtual_type": header.virtual_type == 1,
        "file_bytes": file.stat().st_size,
        "weights_bytes": header.weights_bytes,
        "work_bytes": header.work_bytes,
        "command": header.conversion,
    }
    if soc:
        found["does_not_fit"] = ["the file is for voxrepo's emulator; convert the ONNX file for the chip with ATC"]
    return found


def describe_onnx(file: Path, soc: str = "") -> dict[str, Any]:
    """An ONNX file as plain values; with ``soc``, what that chip makes of it.

    Opset and operators need the package ``onnx``; without it a note says so, and ``soc`` is refused.
    """
    tensors = read_onnx_tensors(file)
    found: dict[str, Any] = {
        "file": str(file),
        "format": "onnx",
        "inputs": [_onnx_tensor(tensor) for tensor in tensors.inputs],
        "outputs": [_onnx_tensor(tensor) for tensor in tensors.outputs],
        "external_files": list(tensors.external_files),
        "file_bytes": file.stat().st_size,
    }
    if soc:
        require_onnx("the operator report of a chip")
        on_chip = describe_for_chip(file, soc)
        found = {**found, **_operators(file), "on_chip": on_chip}
        if problems := why_it_fails(on_chip):
            found["does_not_fit"] = list(problems)
        if note := on_chip.get("note"):
            found["note"] = note
        return found
    try:
        require_onnx()
    except ConfigError:
        found["note"] = "opset and operators are shown where onnx is installed: pip install 'voxrepo[convert]'"
        return found
    return {**found, **_operators(file)}


def _operators(file: Path) -> dict[str, Any]:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(file, load_external_data=False)
    except (DecodeError, ValueError) as error:
        raise ConfigError(f"is not a whole ONNX model: {error}", file=file) from error
    counts: Counter[str] = Counter()
    pending = [model.graph]
    while pending:
        graph = pending.pop()
        for node in graph.node:
            counts[f"{node.domain}.{node.op_type}" if node.domain else node.op_type] += 1
            # bodies of If, Loop and Scan
            for attribute in node.attribute:
                pending += [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
    return {
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
        "ir_version": model.ir_version,
        "opsets": {opset.domain or "ai.onnx": opset.version for opset in model.opset_import},
        "operators": dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
    }


def _tensor(tensor: om.OmTensor | emulated_om.OmTensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "dims": list(tensor.dims),
        "format": tensor.format,
        "ranges": [list(pair) for pair in tensor.ranges],
        "size_bytes": getattr(tensor, "size_bytes", 0),
    }


def _onnx_tensor(tensor: Any) -> dict[str, Any]:
    dims = None if tensor.dims is None else list(tensor.dims)
    return {"name": tensor.name, "dtype": tensor.dtype, "dims": dims}


def _show(found: Mapping[str, Any]) -> None:
    out = Console(highlight=False, soft_wrap=True)
    out.print(Text(found["file"], style="bold"))
    if found.get("emulator_only"):
        out.print(Text(EMULATOR_ONLY, style="bold red"))
    for name, value in _facts(found):
        out.print(Text(f"{name:<12} {_clean(value)}"))
    out.print(_tensor_table(found))
    if found.get("gears"):
        out.print(_gear_table(found))
    if found.get("on_chip"):
        show_for_chip(found["on_chip"])
    elif found.get("operators"):
        out.print(Text("operators    " + ", ".join(f"{name} {count}" for name, count in found["operators"].items())))
    if found.get("note"):
        console.print(Text(f"note: {found['note']}"), soft_wrap=True)


def _facts(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    if found["format"] == "onnx":
        lines = [("format", "ONNX, for the CPU or to be converted"), ("size", size(found["file_bytes"]))]
        if "opsets" in found:
            lines.append(("opset", ", ".join(f"{name} {version}" for name, version in found["opsets"].items())))
            lines.append(("made by", found["producer"] or "not said"))
        if found["external_files"]:
            lines.append(("weights in", ", ".join(found["external_files"])))
        return lines
    shapes = _KINDS[found["kind"]]
    if found.get("dynamic_executor"):
        shapes += ", run by the executor for dynamic shapes"
    lines = [
        ("name", found["name"] or "not said"),
        ("chip", found["soc"] or "not said"),
        ("shapes", shapes),
        ("precision", _precision(found)),
        ("CANN", found["cann_version"] or "not said"),
        ("operators", f"package {found['opp_version']}" if found["opp_version"] else "package version not said"),
        ("weights", size(found["weights_bytes"])),
        ("work memory", size(found["work_bytes"]) + (" and more, by shape" if found["kind"] == "range" else "")),
        ("file", size(found["file_bytes"])),
    ]
    host = found.get("host")
    if host and (host["os"] or host["cpu"]):
        bound = "only" if host["bound_to_it"] else "built on"
        lines.append(("host", f"{bound} {host['os']} {host['cpu']}"))
    if found["virtual_type"] is not None:
        lines.append(("vNPU", "built for slices of a chip" if found["virtual_type"] else "no, whole chips only"))
    if found.get("external_weights"):
        lines.append(("note", "its weights lie in a folder weight/ beside it, which must be kept with it"))
    if found["command"]:
        lines.append(("made with", found["command"]))
    return lines


def _precision(found: Mapping[str, Any]) -> str:
    if not found["precision"]:
        return "not said"
    if found["precision_is_default"]:
        return f"{found['precision']}, ATC's default, since none was given: check vocoders for noise and silence"
    return str(found["precision"])


def _tensor_table(found: Mapping[str, Any]) -> Table:
    built = found["format"] != "onnx"
    table = Table("", "Tensor", "Type", "Shape", *(("Ranges", "Buffer") if built else ()))
    for side in ("inputs", "outputs"):
        for tensor in found[side]:
            ranges = ", ".join(_range(low, high) for low, high in tensor.get("ranges", ()))
            layout = tensor.get("format", "ND")
            shape = _shape(tensor["dims"]) + ("" if layout == "ND" else f" {layout}")
            buffer = size(tensor["size_bytes"]) if tensor.get("size_bytes") else ""
            cells = [side[:-1], _clean(tensor["name"]), tensor["dtype"], shape, *((ranges, buffer) if built else ())]
            # Text, since brackets would be taken for markup
            table.add_row(*(Text(cell) for cell in cells))
    return table


def _gear_table(found: Mapping[str, Any]) -> Table:
    names = [tensor["name"] for tensor in found["inputs"]]
    table = Table("Gear")
    for name in names:
        table.add_column(Text(_clean(name)))
    for index, gear in enumerate(found["gears"], 1):
        table.add_row(str(index), *(Text(_shape(gear[name])) for name in names))
    return table


def _shape(dims: Sequence[int | str | None] | None) -> str:
    if dims is None:
        return "not said"
    return "[" + ", ".join("?" if dim in (None, -1, "") else str(dim) for dim in dims) + "]"


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} and up" if high < 0 else f"{low} to {high}"


def size(count: int) -> str:
    """A number of bytes as people read it."""
    if count < 1024:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if value < 1024 or unit == "GiB":
            return f"{value:.1f} {unit}"
    raise AssertionError


def _clean(text: str) -> str:
    """Text of a file without characters that steer a terminal."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", "\ufffd", text)
