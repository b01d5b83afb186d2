"""Computing once what does not depend on the inputs: sizes that are known, and nodes of constants."""

from __future__ import annotations

import math

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from voxrepo.convert.rules.rule import AppliedRule
from voxrepo.convert.rules.workbench import Workbench, bodies_of, names_read
from voxrepo.importers.graph import ONNX_DOMAINS, attribute

SHAPES = "static_shape"
CONSTANTS = "constants"

_KEPT = frozenset(
    {
        "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
        # not tensors, so no constants of a graph
        "Optional", "OptionalGetElement", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase",
        "SequenceInsert", "SplitToSequence",
        # folding these would undo a quantisation
        "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear",
    }
)  # fmt: skip
_MAX_ELEMENTS = 2**20
"""A folded tensor larger than this would only make the file larger."""


def fold_shapes(bench: Workbench) -> list[AppliedRule]:
    """Replace ``Shape`` and ``Size`` of tensors whose dims are known by constants."""
    applied = []
    kept = []
    outputs = bench.output_names()
    for node in bench.nodes:
        dims = bench.static_dims(node.input[0]) if node.op_type in {"Shape", "Size"} and node.input else None
        if dims is None or node.output[0] in outputs or node.domain not in ONNX_DOMAINS:
            kept.append(node)
            continue
        if node.op_type == "Size":
            value = np.array(math.prod(dims), np.int64)
        else:
            start, end = attribute(node, "start", 0), attribute(node, "end")
            value = np.array(dims[start:end], np.int64)
        bench.constants[node.output[0]] = numpy_helper.from_array(value, node.output[0])
        applied.append(AppliedRule(SHAPES, node.name, f"is {value.tolist()} at these sizes", node.op_type))
    bench.nodes = kept
    return applied


def fold_constants(bench: Workbench) -> list[AppliedRule]:
    """Compute nodes whose inputs are all constant, by onnxruntime on one thread without optimisation."""
    outputs = bench.output_names()
    known = set(bench.constants)
    foldable: list[onnx.NodeProto] = []
    for node in bench.nodes:
        if (
            node.domain in ONNX_DOMAINS
            and node.op_type not in _KEPT
            and not bodies_of(node)
            and all(name in known for name in node.input if name)
            and not any(name in outputs for name in node.output)
            and all(_small(bench, name) for name in node.output if name)
        ):
            foldable.append(node)
            known.update(name for name in node.output if name)
    if not foldable:
        return []
    results = _computed(bench, foldable)
    if results is None:
        return []
    bench.constants.update(results)
    gone = {node.name for node in foldable}
    bench.nodes = [node for node in bench.nodes if node.name not in gone]
    return [AppliedRule(CONSTANTS, node.name, "does not depend on the inputs", node.op_type) for node in foldable]


def _small(bench: Workbench, name: str) -> bool:
    dims = bench.static_dims(name)
    return dims is None or math.prod(dims) <= _MAX_ELEMENTS


def _computed(bench: Workbench, nodes: list[onnx.NodeProto]) -> dict[str, TensorProto] | None:
    made = {name for node in nodes for name in node.output if name}
    read = dict.fromkeys(name for node in nodes for name in node.input if name and name not in made)
    constants = []
    for name in read:
        copy = TensorProto()
        copy.CopyFrom(bench.constants[name])
        copy.name = name
        constants.append(copy)
    # what only feeds another folded node need not come out
    inner = {name for node in nodes for name in node.input}
    gone = {node.name for node in nodes}
    wanted = {name for node in bench.nodes if node.name not in gone for name in names_read(node)}
    results = [name for node in nodes for name in node.output if name and (name in wanted or name not in inner)]
    values = [onnx.ValueInfoProto(name=name) for name in results]
    graph = helper.make_graph(nodes, "constants", [], values, initializer=constants)
    model = helper.make_model(graph, opset_imports=list(bench.model.opset_import))
    model.ir_version = max(min(bench.model.ir_version, 10), 4)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        found = session.run(results, {})
    except Exception:  # the runtime has no base class for its errors; what it cannot compute stays in the graph
        return None
    return {name: numpy_helper.from_array(value, name) for name, value in zip(results, found, strict=True)}
