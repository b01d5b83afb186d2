"""Versions of a voice's stages that are broken in one way each. What is around their graphs says that all is well."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, helper, numpy_helper

from tests.harness import VOICE, edit_yaml
from voxrepo_contract.stage import sha256_of

SLOW_SIZE = 384
"""Rows of the square matrices with which a slow version wastes its time: some milliseconds for each product."""


def _copy(root: Path, stage: str, version: int) -> Path:
    folder = root / "model_repository" / f"{VOICE}.{stage}"
    shutil.copytree(folder / "1", folder / str(version))
    return folder / str(version)


def _with_graph(root: Path, stage: str, version: int, graph: str, change: Callable[[ModelProto], None]) -> None:
    folder = _copy(root, stage, version)
    file = folder / f"{graph}.onnx"
    model = onnx.load(str(file))
    change(model)
    onnx.save(model, str(file))
    edit_yaml(folder / "stage.yaml", **{f"graphs__{graph}__sha256": sha256_of(file)})


def _constant(model: ModelProto, name: str, value: object, kind: type = np.float32) -> str:
    model.graph.initializer.append(numpy_helper.from_array(np.array(value, kind), name))
    return name


def _rename_output(model: ModelProto, output: str, name: str) -> str:
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [name if each == output else each for each in names]
    return name


def _scaled(output: str, factor: float) -> Callable[[ModelProto], None]:
    def change(model: ModelProto) -> None:
        before = _rename_output(model, output, "before_factor")
        model.graph.node.append(helper.make_node("Mul", [before, _constant(model, "factor", factor)], [output]))

    return change


def add_scaled_vocoder(root: Path, version: int, factor: float) -> None:
    """Loud, silent, or no number at all."""
    _with_graph(root, "vocoder", version, "generator", _scaled("audio", factor))


def add_fast_acoustic(root: Path, version: int, factor: float) -> None:
    """Every phoneme takes ``factor`` of its time."""
    _with_graph(root, "acoustic", version, "encoder", _scaled("durations", factor))


def add_unreadable_vocoder(root: Path, version: int) -> None:
    """The graph is none."""
    folder = _copy(root, "vocoder", version)
    file = folder / "generator.onnx"
    file.unlink()
    file.write_bytes(b"not a graph")
    edit_yaml(folder / "stage.yaml", graphs__generator__sha256=sha256_of(file))


def add_vocoder_of_another_rate(root: Path, version: int, rate_hz: int) -> None:
    """It says that its audio has another sample rate."""
    edit_yaml(_copy(root, "vocoder", version) / "stage.yaml", interface__sample_rate_hz=rate_hz)


def add_crashing_acoustic(root: Path, version: int, phoneme: str) -> None:
    """Its process is killed by the processor, dividing whole numbers by nought, once it is to say ``phoneme``."""
    inventory = json.loads((root / "model_repository" / f"{VOICE}.text_frontend" / "1" / "inventory.json").read_bytes())
    (number,) = _ids_of(inventory, phoneme)

    def change(model: ModelProto) -> None:
        before = _rename_output(model, "durations", "before_crash")
        nodes = [
            helper.make_node("Equal", ["phoneme_ids", _constant(model, "bad_id", number, np.int64)], ["is_bad"]),
            helper.make_node("Cast", ["is_bad"], ["bads"], to=onnx.TensorProto.INT64),
            helper.make_node("ReduceMax", ["bads"], ["bad"], keepdims=0),
            helper.make_node("Sub", [_constant(model, "one", 1, np.int64), "bad"], ["divisor"]),
            helper.make_node("Div", ["one", "divisor"], ["quotient"]),
            helper.make_node("Cast", ["quotient"], ["quotient_as_float"], to=onnx.TensorProto.FLOAT),
            helper.make_node("Mul", [before, "quotient_as_float"], ["durations"]),
        ]
        model.graph.node.extend(nodes)

    _with_graph(root, "acoustic", version, "encoder", change)


def _ids_of(inventory: object, phoneme: str) -> list[int]:
    """Numbers of a phoneme, wherever the inventory lists it."""
    if isinstance(inventory, dict):
        if phoneme in inventory:
            found = inventory[phoneme]
            return found if isinstance(found, list) else [found]
        for value in inventory.values():
            if ids := _ids_of(value, phoneme):
                return ids
    if isinstance(inventory, list) and phoneme in inventory:
        return [inventory.index(phoneme)]
    return []


def add_slow_vocoder(root: Path, version: int, products: int) -> None:
    """The same audio after so many products of matrices for each call."""

    def change(model: ModelProto) -> None:
        before = _rename_output(model, "audio", "before_waste")
        matrix = _constant(model, "identity", np.eye(SLOW_SIZE))
        size = _constant(model, "waste_shape", [SLOW_SIZE, SLOW_SIZE], np.int64)
        nodes = [
            helper.make_node("ReduceMean", [before], ["waste_seed"], keepdims=0),
            helper.make_node("Expand", ["waste_seed", size], ["waste_0"]),
        ]
        nodes += [
            helper.make_node("MatMul", [f"waste_{place}", matrix], [f"waste_{place + 1}"]) for place in range(products)
        ]
        nodes += [
            helper.make_node("ReduceMean", [f"waste_{products}"], ["wasted"], keepdims=0),
            helper.make_node("Mul", ["wasted", _constant(model, "nought", 0.0)], ["nothing"]),
            helper.make_node("Add", [before, "nothing"], ["audio"]),
        ]
        model.graph.node.extend(nodes)

    _with_graph(root, "vocoder", version, "generator", change)
