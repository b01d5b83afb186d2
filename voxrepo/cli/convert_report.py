"""What ``voxrepo convert`` prints when it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from voxrepo.cli.output import console, print_json

if TYPE_CHECKING:
    from voxrepo.convert.foreign import ConvertedFile
    from voxrepo.convert.voice import ConvertedVoice, Parcel


def report_file(converted: ConvertedFile, as_json: bool) -> None:
    """Print what became of an ONNX file."""
    if as_json:
        print_json(converted.summary())
        return
    built = converted.built
    table = Table(title=f"{built.kind}, {built.gears} gears" if built.gears else built.kind)
    for heading in ("", "tensor", "dtype", "dims"):
        table.add_column(heading)
    for side, tensors in (("in", built.inputs), ("out", built.outputs)):
        for tensor in tensors:
            table.add_row(side, tensor.name, tensor.dtype, ", ".join(map(str, tensor.dims)))
    console.print(table, markup=False)
    if converted.soc.note:
        console.print(f"note: {converted.soc.note}", soft_wrap=True, markup=False)
    if not built.is_built:
        console.print(
            f"{built.file} was not made: atc is not on this machine. On one with CANN run {built.script}, with the "
            "files beside it",
            soft_wrap=True,
            markup=False,
        )
        return
    console.print(f"wrote {built.file} for {converted.soc.name}, {converted.target} only", soft_wrap=True, markup=False)


def report_voice(converted: ConvertedVoice, as_json: bool) -> None:
    """Print what became of a voice: the proof, precision, what serves it, and what is to be run elsewhere."""
    if as_json:
        print_json(converted.summary())
        return
    table = Table(title=f"{converted.voice}: padded to gears, against the source at its true lengths")
    for heading in ("graph", "gears", "rows compared", "output", "largest difference"):
        table.add_column(heading, justify="right" if heading.endswith(("gears", "compared", "difference")) else "left")
    for version in converted.versions:
        for graph, figures in version.quality().items():
            name = f"{version.stage}@{version.version} {graph}"
            for output, difference in figures["max_diff"].items():
                table.add_row(name, str(figures["gears"]), str(figures["rows"]), output, f"{difference:.2e}")
    if converted.versions:
        console.print(table)
    _report_precision(converted)
    for version in converted.versions:
        said = "wrote" if version.made else "this conversion was there already:"
        console.print(f"{said} {version.path} from version {version.source_version}", soft_wrap=True, markup=False)
    for note in converted.notes:
        console.print(f"note: {note}", soft_wrap=True, markup=False)
    if converted.versions:
        _say_what_serves(converted)
    for parcel in converted.parcels:
        _say_what_to_run(converted.voice, parcel)


def _report_precision(converted: ConvertedVoice) -> None:
    """Sizes, times, what stays in full precision and why."""
    tables = [(f"{v.stage}@{v.version}", v.precision()) for v in converted.versions]
    tables += [(f"{p.stage}@{p.source_version}", p.precision) for p in converted.parcels]
    tables = [(name, figures) for name, figures in tables if figures]
    if not tables:
        return
    table = Table(title="lowered")
    for heading in ("graph", "bytes", "of the source", "CPU time of the source's", "layers lowered", "kept"):
        table.add_column(heading, justify="left" if heading == "graph" else "right")
    for name, figures in tables:
        for graph, cost in figures["graphs"].items():
            share = 100 * cost["bytes"] / max(1, cost["source_bytes"])
            kept = len(figures["kept"].get(graph, {}))
            lowered = figures["lowered_layers"].get(graph, 0)
            ratio = f"{cost['cpu_time_ratio']:.2f}"
            table.add_row(f"{name} {graph}", str(cost["bytes"]), f"{share:.0f} %", ratio, str(lowered), str(kept))
    console.print(table)
    for name, figures in tables:
        for graph, nodes in figures["kept"].items():
            for node, reason in nodes.items():
                console.print(f"{name} {graph}: {node} stays in fp32: {reason}", soft_wrap=True, markup=False)
        if not figures.get("accepted", True):
            why = "; ".join(figures.get("refused_because", []))
            console.print(f"{name}: taken by --force, the gates refuse it: {why}", soft_wrap=True, markup=False)


def _say_what_to_run(voice: str, parcel: Parcel) -> None:
    lines = (
        f"no version of {voice}.{parcel.stage} was made: its compiler is not on this machine, or a step before it is "
        "another tool's",
        f"on a machine with CANN, in {parcel.path}: bash convert.sh && bash finish.sh",
        f"then, on the server with the NPU, add its folder om: voxrepo version add {voice}.{parcel.stage} om",
    )
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)


def _say_what_serves(converted: ConvertedVoice) -> None:
    pins = ", ".join(f"{version.stage} {version.version}" for version in converted.versions)
    if not converted.used:
        console.print(
            f"voice.yaml is as it was; to serve {pins}, put the numbers there, make them an arm of a rollout, or "
            "convert again with --use",
            soft_wrap=True,
            markup=False,
        )
        return
    on_cpu = all(graph.device == "cpu" for version in converted.versions for graph in version.spec.graphs.values())
    if on_cpu:
        console.print(f"voice.yaml pins {pins}", soft_wrap=True, markup=False)
        return
    console.print(
        f"voice.yaml pins {pins}: `voxrepo serve --device emulator` serves them, with --device cpu they are refused",
        soft_wrap=True,
        markup=False,
    )
    back = [
        f"stages.{version.stage}.version: {version.source_version}"
        for version in converted.versions
        if version.source_version != version.version
    ]
    console.print(
        f"to go back to the CPU, set {' and '.join(back)} in ensembles/{converted.voice}/voice.yaml",
        soft_wrap=True,
        markup=False,
    )
