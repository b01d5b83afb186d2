"""Small graphs with the structure of a voice's stages, and a voice made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.repository.tiny import voice_spec
from voxrepo.repository.layout import Layout
from voxrepo.repository.voice import VoiceSpec, write_voice
from voxrepo_contract.names import stage_model_name
from voxrepo_contract.stage import (
    FileEntry,
    GraphSpec,
    GraphTensor,
    Interface,
    LengthRegulatedOptions,
    LengthRegulatedStage,
    TextFrontendOptions,
    TextFrontendStage,
    WindowedOptions,
    WindowedStage,
    sha256_of,
    write_stage,
)

CHANNELS = 4
SYMBOLS = 12
HOP = 6
OVERLAP = 6
OPSET = 15


def _weights(name: str, shape: tuple[int, ...], seed: int) -> TensorProto:
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return numpy_helper.from_array(values / np.float32(np.sqrt(values.size)), name)


def _ints(name: str, values: list[int] | int) -> TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, list[int | str]]],
    outputs: dict[str, tuple[int, list[int | str]]],
    constants: list[TensorProto],
    *,
    opset: int = OPSET,
    domain: str = "",
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, kind, dims) for name, (kind, dims) in inputs.items()],
        [helper.make_tensor_value_info(name, kind, dims) for name, (kind, dims) in outputs.items()],
        initializer=constants,
    )
    imports = [helper.make_opsetid("", opset)]
    if domain:
        imports.append(helper.make_opsetid(domain, 1))
    made = helper.make_model(graph, opset_imports=imports)
    made.ir_version = 8
    return made


def adder(
    dims: list[int | str], *, kind: int = TensorProto.FLOAT, op: str = "Relu", opset: int = OPSET, domain: str = ""
) -> onnx.ModelProto:
    """One pointwise operator."""
    node = helper.make_node(op, ["x"], ["y"], domain=domain)
    return model([node], {"x": (kind, dims)}, {"y": (kind, dims)}, [], opset=opset, domain=domain)


def nonzero() -> onnx.ModelProto:
    """Its output has as many columns as the input has values other than zero."""
    nodes = [helper.make_node("NonZero", ["x"], ["y"])]
    return model(nodes, {"x": (TensorProto.FLOAT, ["n", 4])}, {"y": (TensorProto.INT64, [2, "found"])}, [])


def encoder() -> onnx.ModelProto:
    """Ids to durations, mean and log-scale; masked as real encoders are."""
    f, i = TensorProto.FLOAT, TensorProto.INT64
    nodes = [
        helper.make_node("Shape", ["phoneme_ids"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["count"]),
        helper.make_node("Range", ["zero", "count", "one"], ["positions"]),
        helper.make_node("Unsqueeze", ["lengths", "axis_1"], ["column"]),
        helper.make_node("Less", ["positions", "column"], ["inside"]),
        helper.make_node("Cast", ["inside"], ["flat_mask"], to=f),
        helper.make_node("Unsqueeze", ["flat_mask", "axis_1"], ["mask_b1t"]),
        helper.make_node("Gather", ["table", "phoneme_ids"], ["embedded"]),
        helper.make_node("Transpose", ["embedded"], ["by_channel"], perm=[0, 2, 1]),
        helper.make_node("Mul", ["by_channel", "mask_b1t"], ["mean"]),
        helper.make_node("Conv", ["mean", "w", "b"], ["convolved"], kernel_shape=[3], pads=[1, 1]),
        helper.make_node("Mul", ["convolved", "mask_b1t"], ["log_scale"]),
        helper.make_node("ReduceMean", ["log_scale"], ["level"], axes=[1], keepdims=1),
        helper.make_node("ReduceMean", ["duration_noise"], ["noise"], axes=[1], keepdims=1),
        helper.make_node("Add", ["level", "noise"], ["sum"]),
        helper.make_node("Exp", ["sum"], ["raw"]),
        helper.make_node("Mul", ["raw", "mask_b1t"], ["durations"]),
    ]
    return model(
        nodes,
        {"phoneme_ids": (i, ["batch", "ids"]), "lengths": (i, ["batch"]), "duration_noise": (f, ["batch", 2, "ids"])},
        {
            "durations": (f, ["batch", 1, "ids"]),
            "mean": (f, ["batch", CHANNELS, "ids"]),
            "log_scale": (f, ["batch", CHANNELS, "ids"]),
        },
        [
            _weights("table", (SYMBOLS, CHANNELS), 1),
            _weights("w", (CHANNELS, CHANNELS, 3), 2),
            _weights("b", (CHANNELS,), 3),
            _ints("zero", 0),
            _ints("one", 1),
            _ints("axis_1", [1]),
        ],
    )


def decoder(*, masked: bool = True) -> onnx.ModelProto:
    """Latent to features; ``masked=False`` lets padding be heard."""
    f = TensorProto.FLOAT
    nodes = [
        helper.make_node("Conv", ["latent", "w", "b"], ["c1"], kernel_shape=[3], pads=[1, 1]),
        helper.make_node("Mul", ["c1", "mask" if masked else "one"], ["m1"]),
        helper.make_node("Conv", ["m1", "w", "b"], ["c2"], kernel_shape=[3], pads=[1, 1]),
        helper.make_node("Mul", ["c2", "mask"], ["features"]),
    ]
    return model(
        nodes,
        {"latent": (f, ["batch", CHANNELS, "frames"]), "mask": (f, ["batch", 1, "frames"])},
        {"features": (f, ["batch", CHANNELS, "frames"])},
        [
            _weights("w", (CHANNELS, CHANNELS, 3), 4),
            _weights("b", (CHANNELS,), 5),
            numpy_helper.from_array(np.array(1.0, np.float32), "one"),
        ],
    )


def generator(**changes: Any) -> onnx.ModelProto:
    """Features to audio: two upsamplings (2 and 3), residual blocks with dilation, biases that are not zero."""
    f = TensorProto.FLOAT
    first: dict[str, Any] = {"kernel_shape": [4], "strides": [2], "pads": [1, 1], **changes}
    nodes = [
        helper.make_node("Conv", ["features", "w_in", "b4"], ["h0"], kernel_shape=[5], pads=[2, 2]),
        helper.make_node("LeakyRelu", ["h0"], ["a0"], alpha=0.1),
        helper.make_node("ConvTranspose", ["a0", "w_up1", "b4"], ["h1"], **first),
        helper.make_node("LeakyRelu", ["h1"], ["a1"], alpha=0.1),
        helper.make_node("Conv", ["a1", "w_res", "b4"], ["r1"], kernel_shape=[3], dilations=[2], pads=[2, 2]),
        helper.make_node("Conv", ["a1", "w_one", "b4"], ["r2"], kernel_shape=[1]),
        helper.make_node("Add", ["r1", "h1"], ["s1"]),
        helper.make_node("Add", ["s1", "r2"], ["s2"]),
        helper.make_node("LeakyRelu", ["s2"], ["a2"], alpha=0.1),
        helper.make_node("ConvTranspose", ["a2", "w_up2", "b4"], ["h2"], kernel_shape=[3], strides=[3]),
        helper.make_node("LeakyRelu", ["h2"], ["a3"], alpha=0.1),
        helper.make_node("Conv", ["a3", "w_out", "b1"], ["h3"], kernel_shape=[5], pads=[2, 2]),
        helper.make_node("Tanh", ["h3"], ["audio"]),
    ]
    return model(
        nodes,
        {"features": (f, ["batch", CHANNELS, "frames"])},
        {"audio": (f, ["batch", 1, "samples"])},
        [
            _weights("w_in", (CHANNELS, CHANNELS, 5), 6),
            _weights("w_up1", (CHANNELS, CHANNELS, 4), 7),
            _weights("w_res", (CHANNELS, CHANNELS, 3), 8),
            _weights("w_one", (CHANNELS, CHANNELS, 1), 9),
            _weights("w_up2", (CHANNELS, CHANNELS, 3), 10),
            _weights("w_out", (1, CHANNELS, 5), 11),
            _weights("b4", (CHANNELS,), 12),
            _weights("b1", (1,), 13),
        ],
    )


def save(graph: onnx.ModelProto, file: Path) -> Path:
    file.write_bytes(graph.SerializeToString(deterministic=True))
    return file


def graph_spec(folder: Path, name: str, graph: onnx.ModelProto) -> GraphSpec:
    file = save(graph, folder / f"{name}.onnx")
    kinds: dict[int, Any] = {TensorProto.FLOAT: "FP32", TensorProto.INT64: "INT64"}

    def tensors(values: list[onnx.ValueInfoProto]) -> list[GraphTensor]:
        return [
            GraphTensor(
                name=value.name,
                dtype=kinds[value.type.tensor_type.elem_type],
                dims=[dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim],
            )
            for value in values
        ]

    inputs, outputs = tensors(list(graph.graph.input)), tensors(list(graph.graph.output))
    return GraphSpec(file=file.name, sha256=sha256_of(file), inputs=inputs, outputs=outputs)


def write_voice_of(
    layout: Layout,
    name: str = "tiny",
    *,
    decoder_graph: onnx.ModelProto | None = None,
    generator_graph: onnx.ModelProto | None = None,
) -> VoiceSpec:
    """A voice whose graphs run: version 1 of every stage."""
    folders = {
        stage: layout.version_dir(stage_model_name(name, stage), 1)
        for stage in ("text_frontend", "acoustic", "vocoder")
    }
    for folder in folders.values():
        folder.mkdir(parents=True)
    symbols = {symbol: [number] for number, symbol in enumerate("_^$ abdeikmt"[:SYMBOLS])}
    table = folders["text_frontend"] / "inventory.json"
    table.write_text(json.dumps({"phonemes": symbols, "bos": "^", "eos": "$", "pad": "_"}), encoding="utf-8")
    sha256 = sha256_of(table)
    features = {
        "feature_kind": "vits_latent",
        "channels": CHANNELS,
        "hop_length_samples": HOP,
        "sample_rate_hz": 16_000,
    }
    write_stage(
        folders["text_frontend"],
        TextFrontendStage(
            program="text_frontend",
            stage="text_frontend",
            files={"inventory": FileEntry(file=table.name, sha256=sha256)},
            interface=Interface(inventory_sha256=sha256, speakers=1),
            options=TextFrontendOptions(
                language="en-US", phonemizer="espeak", phonemizer_voice="en-us", speakers=["joe"], max_segment_ids=300
            ),
        ),
    )
    write_stage(
        folders["acoustic"],
        LengthRegulatedStage(
            program="length_regulated",
            stage="acoustic",
            graphs={
                "encoder": graph_spec(folders["acoustic"], "encoder", encoder()),
                "decoder": graph_spec(folders["acoustic"], "decoder", decoder_graph or decoder()),
            },
            interface=Interface(inventory_sha256=sha256, speakers=1, **features),  # type: ignore[arg-type]
            options=LengthRegulatedOptions(noise_scale=0.6, noise_w_scale=0.3, length_scale=1.0),
            provenance={"licence": "test"},
        ),
    )
    write_stage(
        folders["vocoder"],
        WindowedStage(
            program="windowed",
            stage="vocoder",
            graphs={"generator": graph_spec(folders["vocoder"], "generator", generator_graph or generator())},
            interface=Interface(**features),  # type: ignore[arg-type]
            options=WindowedOptions(window_frames=64, overlap_frames=OVERLAP),
            quality={"loudness": {"peak": 0.5}},
        ),
    )
    spec = voice_spec(name)
    write_voice(layout, spec)
    return spec
