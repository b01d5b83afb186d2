"""Tiny graphs of the shapes that stage programs expect, and jobs to run on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from voxrepo_contract.errors import VoxrepoError
from voxrepo_contract.stage import (
    DirectStage,
    GraphSpec,
    GraphTensor,
    Interface,
    LengthRegulatedOptions,
    LengthRegulatedStage,
    WindowedOptions,
    WindowedStage,
    sha256_of,
    write_stage,
)

TYPES = {"FP32": TensorProto.FLOAT, "FP64": TensorProto.DOUBLE, "INT64": TensorProto.INT64, "INT32": TensorProto.INT32}

Tensors = list[tuple[str, str, list[Any]]]

CHANNELS = 3
HOP = 4
OVERLAP = 4
WINDOW = 20
SAMPLE_RATE_HZ = 8000


def build(
    nodes: list[onnx.NodeProto],
    inputs: Tensors,
    outputs: Tensors,
    constants: Mapping[str, npt.NDArray[Any]] | None = None,
) -> bytes:
    def infos(tensors: Tensors) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(name, TYPES[dtype], dims) for name, dtype, dims in tensors]

    graph = helper.make_graph(
        nodes,
        "tiny",
        infos(inputs),
        infos(outputs),
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def describe(file: Path, inputs: Tensors, outputs: Tensors, **changes: Any) -> GraphSpec:
    def listed(tensors: Tensors) -> list[GraphTensor]:
        return [GraphTensor(name=name, dtype=dtype, dims=dims) for name, dtype, dims in tensors]  # type: ignore[arg-type]

    return GraphSpec(
        **{
            "file": file.name,
            "sha256": sha256_of(file),
            "inputs": listed(inputs),
            "outputs": listed(outputs),
            **changes,
        }
    )


def place(
    folder: Path,
    name: str,
    nodes: list[onnx.NodeProto],
    inputs: Tensors,
    outputs: Tensors,
    constants: Mapping[str, npt.NDArray[Any]] | None = None,
) -> GraphSpec:
    """Write a graph into a version directory and describe it."""
    file = folder / f"{name}.onnx"
    file.write_bytes(build(nodes, inputs, outputs, constants))
    return describe(file, inputs, outputs)


def vocoder_constants() -> dict[str, npt.NDArray[Any]]:
    """Weights of :func:`place_vocoder` and its kin."""
    rng = np.random.default_rng(7)
    return {
        "w1": (rng.standard_normal((6, CHANNELS, 5)) * 0.2).astype(np.float32),
        "b1": rng.standard_normal(6).astype(np.float32) * np.float32(0.3),
        "w2": (rng.standard_normal((HOP, 6, 5)) * 0.2).astype(np.float32),
        "b2": rng.standard_normal(HOP).astype(np.float32) * np.float32(0.1),
        "shape": np.array([0, 1, -1], np.int64),
        "half": np.array(0.5, np.float32),
    }


def place_vocoder(folder: Path, *, hop: int = HOP, **options: Any) -> WindowedStage:
    """A generator of two convolutions over 5 frames each (receptive field 4 to each side) and ``HOP`` per frame.

    The second has a bias, so that a wrong edge shows: zero padding is not what a neighbour would have been.
    """
    constants = vocoder_constants()
    nodes = [
        helper.make_node("Conv", ["features", "w1", "b1"], ["h1"], pads=[2, 2]),
        helper.make_node("Tanh", ["h1"], ["h2"]),
        helper.make_node("Conv", ["h2", "w2", "b2"], ["h3"], pads=[2, 2]),
        helper.make_node("Tanh", ["h3"], ["h4"]),
        helper.make_node("Mul", ["h4", "half"], ["h5"]),
        helper.make_node("Transpose", ["h5"], ["h6"], perm=[0, 2, 1]),
        helper.make_node("Reshape", ["h6", "shape"], ["audio"]),
    ]
    spec = place(
        folder,
        "generator",
        nodes,
        [("features", "FP32", ["batch", CHANNELS, "frames"])],
        [("audio", "FP32", ["batch", 1, "samples"])],
        constants,
    )
    stage = WindowedStage(
        program="windowed",
        stage="vocoder",
        graphs={"generator": spec},
        interface=Interface(channels=CHANNELS, hop_length_samples=hop, sample_rate_hz=SAMPLE_RATE_HZ),
        options=WindowedOptions(**{"window_frames": WINDOW, "overlap_frames": OVERLAP, **options}),
    )
    write_stage(folder, stage)
    return stage


IDS = 8
"""Rows of the tiny encoder's tables; the last id predicts NaN means, the one before it NaN durations."""
NAN_MEAN_ID = 7
NAN_DURATION_ID = 6


def place_acoustic(folder: Path, *, speakers: int = 1, **options: Any) -> LengthRegulatedStage:
    """Encoder: tables from ids to durations, means and log scales. Decoder: mean of each frame's channels, masked."""
    rng = np.random.default_rng(11)
    durations = np.array([[1.0], [2.0], [3.5], [0.2], [6.0], [1.5], [np.nan], [2.0]], np.float32)
    means = rng.standard_normal((IDS, CHANNELS)).astype(np.float32)
    means[NAN_MEAN_ID] = np.nan
    constants: dict[str, npt.NDArray[Any]] = {
        "durations_of": durations,
        "means_of": means,
        "scales_of": (rng.standard_normal((IDS, CHANNELS)) * 0.1).astype(np.float32),
        "mix": rng.standard_normal((CHANNELS, CHANNELS, 1)).astype(np.float32),
        "axis1": np.array([1], np.int64),
        "axis12": np.array([1, 2], np.int64),
    }
    one_speaker = speakers == 1
    encoder_inputs: Tensors = [
        ("phoneme_ids", "INT64", ["batch", "ids"]),
        ("lengths", "INT64", ["batch"]),
        ("duration_noise", "FP32", ["batch", 2, "ids"]),
    ]
    decoder_inputs: Tensors = [
        ("latent", "FP32", ["batch", CHANNELS, "frames"]),
        ("mask", "FP32", ["batch", 1, "frames"]),
    ]
    nodes = [
        helper.make_node("Gather", ["durations_of", "phoneme_ids"], ["d1"]),
        helper.make_node("Transpose", ["d1"], ["d2"], perm=[0, 2, 1]),
        helper.make_node("ReduceMean", ["duration_noise"], ["n1"], axes=[1]),
        helper.make_node("Exp", ["n1"], ["n2"]),
        helper.make_node("Mul", ["d2", "n2"], ["durations"]),
        helper.make_node("Gather", ["means_of", "phoneme_ids"], ["m1"]),
        helper.make_node("Transpose", ["m1"], ["m2"], perm=[0, 2, 1]),
        # lengths must be an input of the graph to stay one
        helper.make_node("Cast", ["lengths"], ["l1"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["l1", "l1"], ["l2"]),
        helper.make_node("Unsqueeze", ["l2", "axis12"], ["l3"]),
        helper.make_node("Add", ["m2", "l3"], ["mean" if one_speaker else "m3"]),
        helper.make_node("Gather", ["scales_of", "phoneme_ids"], ["s1"]),
        helper.make_node("Transpose", ["s1"], ["log_scale"], perm=[0, 2, 1]),
    ]
    decoder = [
        helper.make_node("Conv", ["latent", "mix"], ["f1"]),
        helper.make_node("Mul", ["f1", "mask"], ["features"]),
    ]
    if not one_speaker:
        encoder_inputs.append(("speaker_id", "INT64", ["batch"]))
        nodes += [
            helper.make_node("Cast", ["speaker_id"], ["p1"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["p1", "axis12"], ["p2"]),
            helper.make_node("Add", ["m3", "p2"], ["mean"]),
        ]
    used_by_encoder = {name for node in nodes for name in node.input}
    used_by_decoder = {name for node in decoder for name in node.input}
    graphs = {
        "encoder": place(
            folder,
            "encoder",
            nodes,
            encoder_inputs,
            [
                ("durations", "FP32", ["batch", 1, "ids"]),
                ("mean", "FP32", ["batch", CHANNELS, "ids"]),
                ("log_scale", "FP32", ["batch", CHANNELS, "ids"]),
            ],
            {name: value for name, value in constants.items() if name in used_by_encoder},
        ),
        "decoder": place(
            folder,
            "decoder",
            decoder,
            decoder_inputs,
            [("features", "FP32", ["batch", CHANNELS, "frames"])],
            {name: value for name, value in constants.items() if name in used_by_decoder},
        ),
    }
    values = {"noise_scale": 0.6, "noise_w_scale": 0.7, "length_scale": 1.0, **options}
    stage = LengthRegulatedStage(
        program="length_regulated",
        stage="acoustic",
        graphs=graphs,
        interface=Interface(speakers=speakers, channels=CHANNELS),
        options=LengthRegulatedOptions(**values),
    )
    write_stage(folder, stage)
    return stage


def place_direct(folder: Path, nodes: list[onnx.NodeProto], inputs: Tensors, outputs: Tensors) -> DirectStage:
    """A model for the ``direct`` program."""
    stage = DirectStage(
        program="direct", stage="model", graphs={"model": place(folder, "model", nodes, inputs, outputs)}
    )
    write_stage(folder, stage)
    return stage


@dataclass
class Answers:
    """What a job was answered with."""

    finished: list[Mapping[str, Any]] = field(default_factory=list)
    failed: list[VoxrepoError] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.finished) + len(self.failed)

    @property
    def outputs(self) -> Mapping[str, Any]:
        assert not self.failed, self.failed
        (outputs,) = self.finished
        return outputs

    @property
    def error(self) -> VoxrepoError:
        assert not self.finished
        (error,) = self.failed
        return error


def job_for(inputs: Mapping[str, Any], parameters: Mapping[str, object] | None = None) -> tuple[Any, Answers]:
    """A job and where its answers go."""
    from om_backend.job import Job

    answers = Answers()
    return Job(inputs, parameters or {}, answers.finished.append, answers.failed.append), answers


def run_all(program: Any, requests: Iterable[Mapping[str, Any]]) -> list[Answers]:
    """Run all requests as one batch; each must be answered once."""
    jobs, answers = zip(*[job_for(inputs) for inputs in requests], strict=True)
    program.run(list(jobs))
    assert [answer.count for answer in answers] == [1] * len(answers)
    return list(answers)
