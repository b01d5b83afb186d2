from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any

import pytest
from om_backend.choice import ONNX_CPU, WORKER_RUNTIMES, Choice, choose

from voxrepo_contract.errors import ConfigError, Unavailable


def pick(file: str, device: Any = "npu", wanted: str | None = None, mode: Any = "npu") -> Choice:
    return choose(PurePath("/m/1") / file, device, wanted, mode)


@pytest.mark.parametrize(
    ("file", "device", "wanted", "mode", "expected"),
    [
        ("m.onnx", "cpu", None, "cpu", Choice(ONNX_CPU, "cpu")),
        ("m.onnx", "cpu", None, "npu", Choice(ONNX_CPU, "cpu")),
        ("m.onnx", "cpu", "acl", "emulator", Choice(ONNX_CPU, "cpu")),
        ("m.pt", "cpu", None, "cpu", Choice("torch_npu", "cpu")),
        ("m.pt2", "cpu", None, "npu", Choice("torch_npu", "cpu")),
        ("m.om", "npu", None, "npu", Choice("acl", "npu")),
        ("m.om", "npu", None, "emulator", Choice("acl", "npu")),
        ("m.om", "npu", "ais_bench", "npu", Choice("ais_bench", "npu")),
        ("m.pt", "npu", None, "npu", Choice("torch_npu", "npu")),
        ("m.onnx", "npu", "onnx", "npu", Choice("onnx", "npu")),
    ],
)
def test_a_graph_goes_where_it_asks_to(file: str, device: str, wanted: str | None, mode: str, expected: Choice):
    assert pick(file, device, wanted, mode) == expected


@pytest.mark.parametrize("file", ["m.om", "m.pt", "m.onnx"])
def test_a_graph_for_an_npu_is_never_moved_to_a_cpu(file: str):
    with pytest.raises(Unavailable, match=r"asks for an NPU .* runs on the CPU only; start it with --device npu"):
        pick(file, "npu", None, "cpu")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("m.om", "cpu", None, "npu"), "an .om graph runs on an NPU only; device cpu runs .onnx graphs"),
        (("m.onnx", "npu", None, "npu"), "needs the parameter runtime set to onnx"),
        (("m.om", "npu", "torch_npu", "npu"), "runtime 'torch_npu' does not run .om files; acl or ais_bench does"),
        (("m.pt", "npu", "acl", "npu"), "runtime 'acl' does not run .pt files; torch_npu does"),
        (("m.om", "npu", "ais_bench", "emulator"), "runtime 'ais_bench' needs a real NPU; the emulator stands in for"),
        (("m.pt", "npu", None, "emulator"), "runtime 'torch_npu' needs a real NPU"),
        (("m.om", "npu", "cuda", "npu"), "runtime is 'cuda'; it must be one of acl, ais_bench, torch_npu, onnx"),
        (("m.bin", "cpu", None, "cpu"), "files of this type are not run; these are: .om, .onnx, .pt, .pt2"),
        (("m", "npu", None, "npu"), "files of this type are not run"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: tuple[Any, ...], says: str):
    with pytest.raises(ConfigError, match=re.escape(says)):
        pick(*arguments)


def test_every_runtime_names_its_entry():
    assert all(re.fullmatch(r"om_backend(\.\w+)+:open_device", entry.entry) for entry in WORKER_RUNTIMES.values())
    assert all(entry.name == name for name, entry in WORKER_RUNTIMES.items())
