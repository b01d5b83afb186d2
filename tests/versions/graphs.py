"""Small ONNX graphs with the tensors that a test wants, and stages that hold them."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, helper

from voxrepo_contract.stage import GraphSpec, GraphTensor, read_stage, sha256_of, write_stage

FEATURES: list[int | str] = ["batch", 8, "frames"]
AUDIO: list[int | str] = ["batch", 1, "samples"]


def save_generator(
    file: Path,
    features: list[int | str] | None = None,
    *,
    name: str = "features",
    output: str = "audio",
    elem_type: int = TensorProto.FLOAT,
    seed: str = "",
) -> Path:
    """A graph that sums its channels; ``seed`` makes the bytes differ."""
    node = helper.make_node("ReduceSum", [name, "axes"], [output], keepdims=1)
    graph = helper.make_graph(
        [node],
        f"generator{seed}",
        [helper.make_tensor_value_info(name, elem_type, features or FEATURES)],
        [helper.make_tensor_value_info(output, elem_type, AUDIO)],
        [helper.make_tensor("axes", TensorProto.INT64, [1], [1])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(file))
    return file


def give_real_graphs(folder: Path) -> None:
    """Replace the graphs of a tiny version by some that can be read; each is told from the others by its name."""
    stage = read_stage(folder)
    tensors = [
        GraphTensor(name=name, dtype="FP32", dims=dims) for name, dims in (("features", FEATURES), ("audio", AUDIO))
    ]
    graphs = {}
    for key in stage.graphs:
        file = save_generator(folder / f"{key}.onnx", seed=key)
        graphs[key] = GraphSpec(file=file.name, sha256=sha256_of(file), inputs=tensors[:1], outputs=tensors[1:])
    write_stage(folder, stage.model_copy(update={"graphs": graphs}))
