from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from om_backend.device.description import GraphDescription, TensorInfo
from om_backend.device.matching import bind

from voxrepo_contract.errors import ConfigError
from voxrepo_contract.stage import GraphSpec, GraphTensor

FILE = Path("/m/1/model.om")
IDS = ("ids", "INT64", ["batch", "ids"])
MASK = ("mask", "FP32", ["batch", 1, "ids"])
OUT = ("mean", "FP32", ["batch", 4, "ids"])
Listed = tuple[str, str, list[Any]]


def spec(inputs: list[Listed], outputs: list[Listed], gears: list[dict[str, int]] | None = None) -> GraphSpec:
    def tensors(listed: list[Listed]) -> list[GraphTensor]:
        return [GraphTensor(name=name, dtype=dtype, dims=dims) for name, dtype, dims in listed]  # type: ignore[arg-type]

    return GraphSpec(
        file="model.om",
        sha256="0" * 64,
        device="npu",
        inputs=tensors(inputs),
        outputs=tensors(outputs),
        gears=gears or [],
    )


def graph(
    inputs: list[tuple[str, str, tuple[int, ...]]],
    outputs: list[tuple[str, str, tuple[int, ...]]],
    kind: Any = "dims_gears",
    gears: list[Mapping[str, tuple[int, ...]]] | None = None,
) -> GraphDescription:
    return GraphDescription(
        kind=kind,
        inputs=tuple(TensorInfo(*item) for item in inputs),
        outputs=tuple(TensorInfo(*item) for item in outputs),
        gears=tuple(gears or []),
    )


GEARS: list[Mapping[str, tuple[int, ...]]] = [
    {"mask": (1, 1, 64), "ids": (1, 64)},
    {"mask": (4, 1, 64), "ids": (4, 64)},
]
BUILT = graph([("mask", "FP32", (-1, 1, -1)), ("ids", "INT64", (-1, -1))], [("mean", "FP32", (-1, 4, -1))], gears=GEARS)
SIZES = [{"batch": 1, "ids": 64}, {"batch": 4, "ids": 64}]


def test_inputs_go_by_name_whatever_their_order():
    binding = bind(spec([IDS, MASK], [OUT], SIZES), BUILT, FILE)
    assert binding.inputs == ("mask", "ids")
    assert binding.outputs == ("mean",)


@pytest.mark.parametrize(
    ("have", "expected"),
    [
        (["b", "a"], ("b", "a")),
        (["Add_3:0:b", "Mul_9:0:a"], ("b", "a")),
        (["PartitionedCall_0:0", "PartitionedCall_0:1"], ("a", "b")),
    ],
)
def test_outputs_go_by_name_or_by_place(have: list[str], expected: tuple[str, ...]):
    built = graph([("x", "FP32", (1, 2))], [(name, "FP32", (1, 2)) for name in have], kind="static")
    listed: list[Listed] = [("a", "FP32", [1, 2]), ("b", "FP32", [1, 2])]
    assert bind(spec([("x", "FP32", [1, 2])], listed), built, FILE).outputs == expected


@pytest.mark.parametrize(
    ("inputs", "outputs", "gears", "says"),
    [
        ([IDS], [OUT], SIZES, "lists the inputs {'ids': 'INT64'}, the graph has {'mask': 'FP32', 'ids': 'INT64'}"),
        ([IDS, ("m", "FP32", [1])], [OUT], SIZES, "lists the inputs"),
        ([IDS, MASK], [OUT, ("more", "FP32", [1])], SIZES, "lists the outputs {'mean': 'FP32', 'more': 'FP32'}"),
        ([IDS, ("mask", "FP16", MASK[2])], [OUT], SIZES, "input 'mask' is FP16 in stage.yaml and FP32 in the graph; "),
        ([("ids", "INT32", IDS[2]), MASK], [OUT], SIZES, "input 'ids' is INT32 in stage.yaml and INT64 in the graph"),
        (
            [IDS, ("mask", "FP32", ["batch", 2, "ids"])],
            [OUT],
            SIZES,
            "['batch', 2, 'ids'] in stage.yaml and [-1, 1, -1]",
        ),
        ([IDS, ("mask", "FP32", ["batch", "ids"])], [OUT], SIZES, "input 'mask' is ['batch', 'ids'] in stage.yaml"),
        ([IDS, MASK], [("mean", "FP32", ["batch", 5, "ids"])], SIZES, "output 'mean' is ['batch', 5, 'ids']"),
        (
            [IDS, MASK],
            [OUT],
            [{"batch": 2, "ids": 64}],
            "is not built for mask:[2, 1, 64] ids:[2, 64], it is for mask:",
        ),
        ([IDS, MASK], [OUT], [{"batch": 1}], "the gear {'batch': 1} does not say its size"),
        ([IDS, MASK], [OUT], [], "no gears are listed; the graph is built for mask:[1, 1, 64] ids:[1, 64]; mask:[4,"),
    ],
)
def test_what_differs_is_named_with_both_values(
    inputs: list[Listed], outputs: list[Listed], gears: list[dict[str, int]], says: str
):
    with pytest.raises(ConfigError) as caught:
        bind(spec(inputs, outputs, gears), BUILT, FILE)
    assert says in caught.value.message
    assert caught.value.file == FILE


def test_a_static_graph_needs_its_own_shape():
    built = graph([("x", "FP32", (1, 80))], [("y", "FP32", (1, 4))], kind="static")
    out: list[Listed] = [("y", "FP32", [1, 4])]
    bind(spec([("x", "FP32", [1, 80])], out), built, FILE)
    bind(spec([("x", "FP32", ["batch", 80])], out, [{"batch": 1}]), built, FILE)
    with pytest.raises(ConfigError, match=r"not built for x:\[2, 80\]"):
        bind(spec([("x", "FP32", ["batch", 80])], out, [{"batch": 2}]), built, FILE)


def test_a_graph_for_ranges_needs_no_gears_and_may_not_know_its_outputs():
    built = graph([("x", "FP32", (-1,))], [("y", "FP32", ())], kind="range")
    bind(spec([("x", "FP32", ["n"])], [("y", "FP32", ["m", 2])]), built, FILE)


def test_many_gears_are_not_all_listed():
    many: list[Mapping[str, tuple[int, ...]]] = [{"x": (n,)} for n in range(1, 51)]
    built = graph([("x", "FP32", (-1,))], [("y", "FP32", (-1,))], gears=many)
    with pytest.raises(ConfigError, match="and 42 more"):
        bind(spec([("x", "FP32", ["n"])], [("y", "FP32", ["n"])], [{"n": 99}]), built, FILE)
