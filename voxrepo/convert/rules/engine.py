"""Applies the rules until none applies any more. Pure: the same graph gives the same result, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from voxrepo.convert.onnx_graph import sized
from voxrepo.convert.rules.folding import fold_constants, fold_shapes
from voxrepo.convert.rules.opset import lower_opset
from voxrepo.convert.rules.rule import AppliedRule, Rule
from voxrepo.convert.rules.table import INTERFACE_RULES, RULES
from voxrepo.convert.rules.workbench import Builder, Workbench, bodies_of
from voxrepo.convert.soc import Soc
from voxrepo.importers.graph import ONNX_DOMAINS

_MAX_PASSES = 50
"""Every pass removes operators; a real graph is done after three or four."""


def apply_rules(
    model: onnx.ModelProto, soc: Soc, *, interface: bool = False
) -> tuple[onnx.ModelProto, tuple[AppliedRule, ...]]:
    """Replace operators that are not supported or slow on a chip by equal ones.

    Args:
        model: any ONNX graph; not changed.
        soc: chip that it is for.
        interface: also apply the rules that change the graph's inputs (:data:`INTERFACE_RULES`); whoever asks for
            them must feed the new inputs.

    Returns:
        The rewritten graph, and what was done in order. Inputs and outputs are those of ``model``, except as above.
    """
    del soc  # no rule differs by chip so far; part of the contract, since support does
    bench = Workbench(model)
    applied: list[AppliedRule] = []
    rules = (*RULES, *(INTERFACE_RULES if interface else ()))
    for _ in range(_MAX_PASSES):
        bench.infer()
        # folding goes by the shapes just found, which a rule may have changed
        done = _one_pass(bench, rules) or fold_shapes(bench) + fold_constants(bench)
        applied += done
        bench.prune()
        if not done:
            break
    applied += lower_opset(bench)
    return bench.finished(), tuple(applied)


def fix_shapes(
    model: onnx.ModelProto, sizes: Mapping[str, Sequence[int]], soc: Soc
) -> tuple[onnx.ModelProto, tuple[AppliedRule, ...]]:
    """The graph for one fixed shape of its inputs, with all that then is constant computed.

    Args:
        model: not changed.
        sizes: dims by name of input; what is not named, or -1, stays as it is.
        soc: chip that it is for.
    """
    fixed = sized(model, sizes)
    for value in fixed.graph.output:
        # names of axes that have a size now
        for dim in value.type.tensor_type.shape.dim:
            dim.ClearField("dim_param")
    return apply_rules(fixed, soc)


def _one_pass(bench: Workbench, rules: Sequence[Rule]) -> list[AppliedRule]:
    by_operator: dict[str, list[Rule]] = {}
    for rule in rules:
        for operator in rule.operators:
            by_operator.setdefault(operator, []).append(rule)
    applied: list[AppliedRule] = []
    nodes: list[onnx.NodeProto] = []
    renamed: dict[str, str] = {}
    for node in bench.nodes:
        _rename_inputs(node, renamed)
        built = None
        for rule in by_operator.get(node.op_type, ()) if node.domain in ONNX_DOMAINS else ():
            builder = Builder(bench, rule.name, node)
            note = rule.rewrite(bench, node, builder)
            if note is not None:
                built = builder
                applied.append(AppliedRule(rule.name, node.name, note, node.op_type))
                break
        if built is None:
            nodes.append(node)
            continue
        bench.constants.update(built.constants)
        renamed.update(built.aliases)
        nodes.extend(built.nodes)
    bench.nodes = nodes
    return applied


def _rename_inputs(node: onnx.NodeProto, renamed: Mapping[str, str]) -> None:
    if not renamed:
        return
    for index, name in enumerate(node.input):
        if name in renamed:
            node.input[index] = renamed[name]
    for body in bodies_of(node):
        for value in body.output:
            value.name = renamed.get(value.name, value.name)
        for inner in body.node:
            _rename_inputs(inner, renamed)
