"""Target ``ascend``: an OM by Ascend's compiler where it is installed, else all that it needs and a script."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path, PurePath
from typing import Literal

import onnx

from voxrepo.convert.atc.command import AtcInputs, AtcOptions, atc_command, keep_list_text, mixlist_of
from voxrepo.convert.atc.precision import precision_mode
from voxrepo.convert.atc.run import check_made, find_atc, run_atc, timeout_s
from voxrepo.convert.atc.script import SCRIPT, ScriptPart, add_to_script, check_is_ours, known_sums
from voxrepo.convert.fixed_shapes import Shapes
from voxrepo.convert.input_shape import VARIES
from voxrepo.convert.onnx_graph import check_dtypes, check_operators, dtype_name, graph_inputs, sized, weights_bytes
from voxrepo.convert.planned_shapes import planned_shapes
from voxrepo.convert.precision.tiers import INT8
from voxrepo.convert.refusal import BAD_VALUE, AtcRefusal
from voxrepo.convert.rules import fix_shapes
from voxrepo.convert.soc import parse_soc
from voxrepo.convert.target import BuildRequest, BuiltGraph, BuiltTensor, Progress
from voxrepo_contract.emulated_om import GEAR_KINDS, STATIC
from voxrepo_contract.errors import ConfigError, InvalidArgument
from voxrepo_contract.stage import sha256_of

_ANY_SOC = "Ascend910B3"
_NAME = re.compile(r"[A-Za-z0-9_\u4e00-\u9fff][A-Za-z0-9_.\u4e00-\u9fff-]*")
"""Ascend's documentation of --model and --output has letters, digits, _, -, . and Chinese characters."""


class AscendTarget:
    """See :class:`voxrepo.convert.target.Target`.

    Args:
        options: beside those of a request.
    """

    name = "ascend"
    device: Literal["cpu", "npu"] = "npu"
    suffix = ".om"
    lowers_itself = True

    def __init__(self, options: AtcOptions | None = None) -> None:
        self._options = options or AtcOptions()
        self._sources: dict[Path, bytes] = {}

    def check_precision(self, precision: str) -> None:
        """Refuse what is no tier and no mode of ATC; whether a chip has it is checked when building."""
        precision_mode(precision, parse_soc(_ANY_SOC))

    def tools(self) -> dict[str, str]:
        """Versions of voxrepo and onnx, and of CANN where ATC is installed."""
        found = {"voxrepo": version("voxrepo"), "onnx": str(onnx.__version__)}
        program = find_atc()
        found["atc"] = "not on this machine" if program is None else cann_version(program)
        return found

    def build(self, request: BuildRequest, file: Path, progress: Progress) -> BuiltGraph:
        """Check the graph, then compile it, or leave ``NAME.onnx``, its lists and ``convert.sh`` beside ``file``.

        INT8 always leaves a script, since calibration is AMCT's, a tool of its own.
        """
        mode = precision_mode(request.precision, request.soc)
        _check_name(request.name)
        model = _fixed(request)
        check_operators(model)
        check_dtypes(model, request.soc)
        shapes = planned_shapes(model, request.plan, request.soc, lambda text, share: progress(text, 0.2 * share))
        kept = _kept(request, model) if mode.lowers else ()
        program = None if request.precision == INT8 else find_atc()
        try:
            if program is None:
                script = self._leave_script(request, model, kept, file, mode.why)
            else:
                script = None
                progress(f"atc is compiling {request.name}", 0.2)
                self._compile(program, request, model, kept, file)
        except OSError as error:
            raise ConfigError(f"cannot be written: {error.strerror or error}", file=file) from error
        self._sources[file] = model.SerializeToString(deterministic=True)
        return _built(request, model, shapes, file, script)

    def reference_model(self, file: Path) -> bytes:
        """The graph that was given to ATC, in its own precision: what a chip makes of it cannot be run here."""
        if file not in self._sources:
            raise ConfigError("this file was not built in this run, its graph is not at hand", file=file)
        return self._sources[file]

    def _arguments(
        self, request: BuildRequest, model: onnx.ModelProto, kept: Sequence[str], folder: Path, onnx_file: str
    ) -> tuple[list[str], list[str]]:
        """Write the lists; arguments of ATC and names of the files written. Paths are relative to the folder."""
        written = []
        keep_file = mixlist_file = ""
        if kept:
            keep_file = f"{request.name}.keep_dtype.cfg"
            (folder / keep_file).write_text(keep_list_text(kept), encoding="utf-8")
            written.append(keep_file)
            changes = mixlist_of(model, kept)
            if changes and precision_mode(request.precision, request.soc).mode.startswith("mixed"):
                mixlist_file = f"{request.name}.mixlist.json"
                (folder / mixlist_file).write_text(json.dumps(changes, indent=1) + "\n", encoding="utf-8")
                written.append(mixlist_file)
        files = AtcInputs(PurePath(onnx_file), PurePath(request.name), keep_file, mixlist_file)
        options = replace(self._options, extra=(*self._options.extra, *request.extra))
        command = atc_command(model, request.plan, request.soc, request.precision, files, options)
        return command.arguments(), written

    def _compile(
        self, program: Path, request: BuildRequest, model: onnx.ModelProto, kept: Sequence[str], file: Path
    ) -> None:
        folder = file.parent / f".atc-{request.name}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            source = f"{request.name}.onnx"
            (folder / source).write_bytes(model.SerializeToString(deterministic=True))
            arguments, _ = self._arguments(request, model, kept, folder, source)
            made = run_atc(program, arguments, folder, folder / request.name, timeout_s())
            gears = len(request.plan.gears) if request.plan.kind in GEAR_KINDS else 0
            inputs = [entry.name for entry in graph_inputs(model)]
            check_made(made, inputs, len(model.graph.output), gears, request.soc.name)
            made.replace(file)
            weights = folder / "weight"
            if weights.is_dir():
                weights.replace(file.parent / "weight")
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _leave_script(
        self, request: BuildRequest, model: onnx.ModelProto, kept: Sequence[str], file: Path, why: str
    ) -> Path:
        folder = file.parent
        source = f"{request.name}.onnx"
        _check_free(folder, source, request.name)
        (folder / source).write_bytes(model.SerializeToString(deterministic=True))
        quantised = request.precision == INT8
        compiled = f"{request.name}.amct/{request.name}_deploy_model.onnx" if quantised else source
        arguments, written = self._arguments(request, model, () if quantised else kept, folder, compiled)
        before: tuple[tuple[str, ...], ...] = ()
        note = f"precision {request.precision}: {why}"
        if quantised:
            config = f"{request.name}.amct.cfg"
            (folder / config).write_text(amct_config(kept), encoding="utf-8")
            written.append(config)
            before = (_amct_command(request, source, config),)
            note += (
                f"\nAMCT reads the calibration inputs from calibration/{request.name}/INPUT/, one .bin file a batch;"
                "\nits command was written from Ascend's documentation and has not been run by voxrepo"
            )
        sums = {name: sha256_of(folder / name) for name in (source, *written)}
        part = ScriptPart(request.name, request.soc.name, tuple(arguments), sums, before, note)
        return add_to_script(folder, part)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise AtcRefusal(
            BAD_VALUE,
            f"the name {name!r} of the graph's file has characters that atc does not take in paths; rename it to "
            "letters of English, digits, Chinese characters, _, - and ., beginning with none of the last two",
        )


def _check_free(folder: Path, source: str, name: str) -> None:
    """The graph that is left for the compiler must not replace a file of the user, such as its own source."""
    check_is_ours(folder / SCRIPT)
    place = folder / source
    if place.exists() and known_sums(folder, name).get(source) != sha256_of(place):
        raise ConfigError(
            "is there already, and the graph that is left for atc would replace it; give -o a file in another folder",
            file=place,
        )


def cann_version(program: Path) -> str:
    """Version of the CANN that a compiler belongs to, as its installation notes it; ``unknown`` if it does not."""
    home = os.environ.get("ASCEND_TOOLKIT_HOME") or os.environ.get("ASCEND_HOME_PATH") or str(program.parent.parent)
    for name in ("version.cfg", "compiler/version.info", "ascend_toolkit_install.info"):
        try:
            text = (Path(home) / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        for line in text.splitlines():
            key, _, value = line.partition("=")
            if key.strip().lower() in {"version", "toolkit_running_version", "running_version"} and value.strip():
                return value.strip().strip("[]")
    return "unknown"


def amct_config(excluded: Sequence[str]) -> str:
    """Calibration settings of AMCT: layers that are not quantised."""
    lines = ["batch_num: 1", "activation_offset: true", *(f'skip_layers: "{name}"' for name in sorted(excluded))]
    return "\n".join(lines) + "\n"


def _amct_command(request: BuildRequest, source: str, config: str) -> tuple[str, ...]:
    largest = request.plan.probes()[-1]
    inputs = graph_inputs(request.model)
    kinds = {"FP32": "float32", "FP16": "float16", "INT64": "int64", "INT32": "int32"}
    return (
        "amct_onnx",
        "calibration",
        "--model",
        source,
        "--save_path",
        f"{request.name}.amct/{request.name}",
        "--input_shape",
        ";".join(f"{entry.name}:{','.join(map(str, largest[entry.name]))}" for entry in inputs),
        "--data_dir",
        ";".join(f"calibration/{request.name}/{entry.name}" for entry in inputs),
        "--data_types",
        ";".join(kinds.get(entry.dtype, entry.dtype.lower()) for entry in inputs),
        "--calibration_config",
        config,
    )


def _fixed(request: BuildRequest) -> onnx.ModelProto:
    """The graph with the sizes that do not vary; of a single shape, everything that follows is computed."""
    if request.plan.kind == STATIC:
        return fix_shapes(request.model, request.plan.dims, request.soc)[0]
    model = sized(request.model, request.plan.dims)
    model.ClearField("doc_string")
    return model


def _kept(request: BuildRequest, model: onnx.ModelProto) -> tuple[str, ...]:
    """Nodes to keep in FP32 that are still there; folding may have removed some."""
    known = {node.name for node in request.model.graph.node}
    strange = [name for name in request.keep if name not in known]
    if strange:
        raise InvalidArgument(f"the graph {request.name} has no node {strange[0]!r} to keep in FP32")
    left = {node.name for node in model.graph.node}
    return tuple(name for name in request.keep if name in left)


def _built(
    request: BuildRequest, model: onnx.ModelProto, shapes: Sequence[Shapes], file: Path, script: Path | None
) -> BuiltGraph:
    plan = request.plan
    outputs = []
    for value in model.graph.output:
        dims = [at.outputs[value.name] or () for at in shapes]
        joined = tuple(
            VARIES if None in sizes or len(sizes) > 1 else next(iter(sizes))
            for sizes in ({dim[axis] for dim in dims} for axis in range(min(map(len, dims))))
        )
        known = tuple(VARIES if dim is None else dim for dim in joined)
        outputs.append(BuiltTensor(value.name, dtype_name(value.type.tensor_type.elem_type), known))
    depends = any(dims is None or None in dims for at in shapes for dims in at.outputs.values())
    return BuiltGraph(
        file=file,
        kind=plan.kind,
        inputs=tuple(BuiltTensor(e.name, e.dtype, tuple(plan.dims[e.name])) for e in graph_inputs(model)),
        outputs=tuple(outputs),
        gears=len(plan.gears) if plan.kind in GEAR_KINDS else 0,
        weights_bytes=weights_bytes(model),
        work_bytes=max(at.work_bytes for at in shapes),
        unbounded_outputs=depends,
        is_built=script is None,
        script=script,
    )
