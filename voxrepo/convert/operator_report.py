"""What a chip makes of an ONNX file: which operators it has, which are replaced, which will fail and why. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import onnx
from onnx import TensorProto

from voxrepo.convert.onnx_graph import dtype_name, operator_list
from voxrepo.convert.refusal import BAD_VALUE, NO_GEARS, NO_KERNEL, NO_PARSER
from voxrepo.convert.rules import INTERFACE_RULES, RULES, AppliedRule, apply_rules
from voxrepo.convert.rules.opset import means_the_same
from voxrepo.convert.rules.workbench import Workbench, bodies_of, names_read
from voxrepo.convert.soc import Soc
from voxrepo.importers.graph import ONNX_DOMAINS, opset_of

ERROR, WARNING = "error", "warning"

_SCOPE_KEYS = ("pkg.torch.onnx.name_scopes", "namespace", "pkg.torch.onnx.namespace")
_SIZE_INPUTS = {
    "ConstantOfShape": (0,), "Expand": (1,), "OneHot": (1,), "Pad": (1,), "Range": (0, 1, 2), "Reshape": (1,),
    "Resize": (2, 3), "Slice": (1, 2), "Split": (1,), "Tile": (1,), "TopK": (1,),
}  # fmt: skip
"""Inputs whose values decide about the size of the output."""
_FINDS = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})
"""Operators whose output is as large as what they find."""
_MEASURES = frozenset({"Shape", "Size"})
"""Operators whose output depends on sizes only."""


@dataclass(frozen=True)
class Finding:
    """One thing to know.

    Attributes:
        level: ``error``: the compiler will fail; ``warning``: it may, or the result is slow.
        code: of ATC, empty for warnings that it does not give.
        operator: type of the node; empty where it is not about a node.
        node: its name.
        scope: the module that it comes from, as the exporter wrote it, such as ``enc.layers.0.attention``.
        what: what is wrong.
        what_to_do: the way out.
    """

    level: str
    code: str
    operator: str
    node: str
    scope: str
    what: str
    what_to_do: str


@dataclass(frozen=True)
class OperatorUse:
    """An operator of the graph.

    Attributes:
        operator: its type, with the domain if it is not ONNX's own.
        count: nodes of it.
        replaced: nodes that rules replace, by rule.
        failing: nodes that the chip does not take.
    """

    operator: str
    count: int
    replaced: Mapping[str, int]
    failing: int

    @property
    def supported(self) -> int:
        """Nodes that stay and are taken."""
        return self.count - sum(self.replaced.values()) - self.failing


@dataclass(frozen=True)
class OperatorReport:
    """What a chip makes of a graph.

    Attributes:
        soc: its name.
        opset: of the graph.
        operators: most frequent first.
        findings: errors first.
    """

    soc: str
    opset: int
    operators: tuple[OperatorUse, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What the compiler will fail at."""
        return tuple(entry for entry in self.findings if entry.level == ERROR)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "soc": self.soc,
            "opset": self.opset,
            "operators": [{**asdict(use), "supported": use.supported} for use in self.operators],
            "findings": [asdict(entry) for entry in self.findings],
        }


def operator_report(model: onnx.ModelProto, soc: Soc) -> OperatorReport:
    """Look at a graph as the compiler for ``soc`` does, after the rules.

    Args:
        model: any ONNX graph, not changed.
        soc: chip.
    """
    scopes = {node.name: scope_of(node) for node in model.graph.node}
    rewritten, applied = apply_rules(model, soc)
    replaced = _replaced(applied)
    found = [*_opset(rewritten), *_nodes(rewritten, soc, scopes), *_inputs(model)]
    found += _data_dependent(rewritten, scopes)
    failing = Counter(entry.operator for entry in found if entry.level == ERROR and entry.operator)
    counts: Counter[str] = Counter(map(_type_of, _all_nodes(model.graph)))
    uses = [
        OperatorUse(
            name, count, replaced.get(name, {}), min(failing[name], count - sum(replaced.get(name, {}).values()))
        )
        for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    opset = opset_of(model)
    found.sort(key=lambda entry: entry.level != ERROR)
    return OperatorReport(soc.name, opset, tuple(uses), tuple(found))


def scope_of(node: onnx.NodeProto) -> str:
    """The module that a node was exported from, as the path PyTorch gives it; empty where the file does not tell."""
    for entry in node.metadata_props:
        if entry.key in _SCOPE_KEYS:
            parts = [part.strip(" '\"") for part in entry.value.strip("[]").replace("/", ",").split(",")]
            named = [part.partition(":")[0].strip() for part in parts if part]
            return next((part for part in reversed(named[:-1] or named) if part), "")
    # the older exporter names nodes by their modules: /enc/layers.0/attention/MatMul
    path = node.name.strip("/").split("/")[:-1] if node.name.startswith("/") else []
    return ".".join(path)


def _type_of(node: onnx.NodeProto) -> str:
    return node.op_type if node.domain in ONNX_DOMAINS else f"{node.domain}.{node.op_type}"


def _all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for body in bodies_of(node):
            yield from _all_nodes(body)


def _replaced(applied: Sequence[AppliedRule]) -> dict[str, dict[str, int]]:
    """Counts by operator and rule of nodes of the graph itself; a rule also sees what another one built."""
    counts: dict[str, dict[str, int]] = {}
    built = {f"{entry.node}/{entry.rule}/" for entry in applied if entry.operator}
    for entry in applied:
        if entry.operator and not any(entry.node.startswith(prefix) for prefix in built):
            by_rule = counts.setdefault(entry.operator, {})
            by_rule[entry.rule] = by_rule.get(entry.rule, 0) + 1
    return counts


def _opset(rewritten: onnx.ModelProto) -> Iterator[Finding]:
    known = operator_list()
    opset = opset_of(rewritten)
    if known.opset_min <= opset <= known.opset_max:
        return
    ask = f"export it with opset_version={min(max(opset, known.opset_min), known.opset_max)}"
    if opset > known.opset_max:
        bench = Workbench(rewritten)
        bench.infer()
        same = (means_the_same(node, opset, known.opset_max, bench.elem_types) for node in bench.nodes)
        held = next((node for node, alike in zip(bench.nodes, same, strict=True) if not alike), None)
        node = "" if held is None else f"; {held.op_type} {held.name!r} keeps it from being lowered here"
    else:
        node = ""
    what = f"the graph uses operator set {opset}, and {known.opset_min} to {known.opset_max} are read{node}"
    yield Finding(ERROR, NO_PARSER, "", "", "", what, f"{ask} (17, say)")


def _nodes(model: onnx.ModelProto, soc: Soc, scopes: Mapping[str, str]) -> Iterator[Finding]:
    known, family = operator_list(), soc.properties()
    bench = Workbench(model)
    bench.infer()
    local = {(function.domain, function.name) for function in model.functions}
    by_rule = {name: rule for rule in (*RULES, *INTERFACE_RULES) for name in rule.operators}
    for node in _all_nodes(model.graph):
        scope = scopes.get(node.name.split("/")[0], "") or scopes.get(node.name, "") or scope_of(node)
        kind = _type_of(node)
        if (node.domain, node.op_type) in local:
            what, advice = "it is a function of the model", "export the model without functions"
            yield Finding(ERROR, NO_PARSER, kind, node.name, scope, what, advice)
        elif node.domain not in ONNX_DOMAINS:
            advice = "export without fused or custom operators, or install a custom parser and kernel"
            yield Finding(ERROR, NO_PARSER, kind, node.name, scope, "it is not an operator of ONNX", advice)
        elif node.op_type not in known.operators:
            rule = by_rule.get(node.op_type)
            advice = "use " + known.replacements.get(node.op_type, "listed operators, or a lower operator set")
            if rule is not None:
                advice += (
                    f"; the rule {rule.name!r} makes it {rule.becomes} where sizes and parameters are constant, which "
                    "they are not here: fix the shapes (--gears with one size) or export them as constants"
                )
            yield Finding(ERROR, NO_PARSER, kind, node.name, scope, "the compiler has no parser for it", advice)
        else:
            yield from _kernel(node, kind, scope, soc, bench)
    for name, elem_type in bench.elem_types.items():
        if elem_type and dtype_name(elem_type) not in family.dtypes:
            what = f"the tensor {name!r} is {dtype_name(elem_type)}, which no kernel of {soc.name} takes"
            advice = f"cast to one of {', '.join(family.dtypes)}; complex numbers to pairs of real ones"
            yield Finding(ERROR, NO_KERNEL, "", name, "", what, advice)


def _kernel(node: onnx.NodeProto, kind: str, scope: str, soc: Soc, bench: Workbench) -> Iterator[Finding]:
    family = soc.properties()
    if node.op_type in family.no_kernel:
        what = f"{soc.name} has no kernel for it"
        yield Finding(ERROR, NO_KERNEL, kind, node.name, scope, what, family.no_kernel[node.op_type])
        return
    allowed = family.kernel_dtypes.get(node.op_type)
    elem_type = bench.elem_types.get(node.input[0], 0) if node.input else 0
    if allowed and elem_type and dtype_name(elem_type) not in allowed:
        what = f"{soc.name} has no kernel for it with {dtype_name(elem_type)}"
        yield Finding(ERROR, NO_KERNEL, kind, node.name, scope, what, f"cast to one of {', '.join(allowed)}")
        return
    if node.op_type.startswith("Random"):
        what = "it draws other noise with every call, so that a text sounds different each time"
        advice = "make the noise an input of the graph, which the host fills"
        yield Finding(WARNING, "", kind, node.name, scope, what, advice)


def _inputs(model: onnx.ModelProto) -> Iterator[Finding]:
    constants = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name in constants:
            continue
        kind = value.type.tensor_type
        if not kind.HasField("shape"):
            what = f"the input {value.name!r} has no known number of axes"
            yield Finding(
                ERROR, NO_GEARS, "", value.name, "", what, "export it with dynamic_axes, which keep the number"
            )
            continue
        varying = [dim.dim_param or f"axis {axis}" for axis, dim in enumerate(kind.shape.dim) if not dim.dim_value > 0]
        if varying:
            what = f"the input {value.name!r} varies along {', '.join(varying)}, and the file has no range for it"
            advice = (
                "give sizes when converting: gears (--gears of a voice, --input-shape with -1 and --dynamic-dims of a "
                "file), a range (1~512), or fixed sizes"
            )
            yield Finding(WARNING, NO_GEARS, "", value.name, "", what, advice)
        if kind.elem_type == TensorProto.INT64:
            what = f"the input {value.name!r} is INT64, which the vector unit emulates"
            advice = "it works; INT32 is faster where values allow, as for ids"
            yield Finding(WARNING, "", "", value.name, "", what, advice)


def _data_dependent(model: onnx.ModelProto, scopes: Mapping[str, str]) -> Iterator[Finding]:
    """Nodes whose output's size follows from values of inputs: no gears with them."""
    bench = Workbench(model)
    values = set(bench.input_names())
    for node in bench.nodes:
        if node.op_type in _MEASURES:
            continue
        tainted = [name for name in names_read(node) if name in values]
        if not tainted:
            continue
        values.update(name for name in node.output if name)
        places = _SIZE_INPUTS.get(node.op_type, ())
        decides = any(bench.input(node, place) in tainted for place in places)
        if node.op_type in _FINDS or decides or node.op_type == "Loop":
            scope = scopes.get(node.name, "") or scope_of(node)
            what = "the size of its output depends on values, which gears do not allow"
            advice = (
                "cut the graph here and do this step on the host (length regulators), write it with a mask of fixed "
                "size, or use ranges where the chip has them"
            )
            yield Finding(ERROR, BAD_VALUE, _type_of(node), node.name, scope, what, advice)
