"""Runtime ``ais_bench`` against a stand-in of the tool that is as unforgiving as the real one; see ``stand_in``.

The graph files are Huawei's format, built byte by byte.
"""

from __future__ import annotations

import importlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from om_backend.device import ais_bench
from om_backend.device.ais_bench import open_device
from om_backend.device.client import DeviceWorker
from om_backend.device.faults import Action, DeviceFault
from om_backend.device.settings import RuntimeEntry

from tests.contract.om import builder
from tests.contract.om.builder import Om, Tensor
from voxrepo_contract.errors import InvalidArgument

from .conftest import HERE, Lines, tiny_settings

STAND_IN = HERE / "stand_in"
NAMES = ("aclruntime", "ais_bench", "ais_bench.infer", "ais_bench.infer.interface", "acl")


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The stand-in's module ``aclruntime``, as if just imported."""
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(STAND_IN))
    yield importlib.import_module("aclruntime")
    for name in NAMES:
        sys.modules.pop(name, None)


WORDS = {"FP32": "float32", "FP16": "float16", "INT64": "int64", "INT32": "int32", "BOOL": "bool"}


def write(folder: Path, om: Om, inputs: list[Tensor], outputs: list[Tensor], **facts: Any) -> Path:
    file = folder / f"{len(list(folder.iterdir()))}.om"
    file.write_bytes(om.write())

    def listed(tensors: list[Tensor]) -> list[Any]:
        return [[t.name, WORDS[t.dtype], list(t.dims)] for t in tensors]

    content = {"inputs": listed(inputs), "outputs": listed(outputs), **facts}
    Path(f"{file}.json").write_text(json.dumps(content), "utf-8")
    return file


def om_of(inputs: list[Tensor], outputs: list[Tensor], *, dynamic: int = 0, **gears: Any) -> Om:
    hidden = [builder.GEAR_INPUT] if gears else []
    described = builder.inout([*inputs, *hidden], outputs, **gears)
    model = builder.definition(values=builder.decoder_values(atc_cmdline="atc --model=a.onnx"))
    return Om([[(8, described), (0, model)]], dynamic=dynamic)


def static(folder: Path, dtype: str = "FP32", **facts: Any) -> Path:
    x, y = [Tensor("x", [2, 3], dtype)], [Tensor("y", [2, 3], dtype)]
    return write(folder, om_of(x, y), x, y, kind="static", **facts)


def batch_gears(folder: Path) -> Path:
    x, y = [Tensor("x", [-1, 3])], [Tensor("y", [4, 3])]
    return write(folder, om_of(x, y, batches=[1, 4], order=["x"]), x, y, kind="batch_gears", gears=[[1], [4]])


def dims_gears(folder: Path) -> Path:
    x, y = [Tensor("x", [1, -1]), Tensor("m", [1, -1])], [Tensor("y", [1, 128])]
    gears = [[1, 64, 1, 64], [1, 128, 1, 128]]
    om = om_of(x, y, dims=[[64, 64], [128, 128]], order=["x", "m"])
    return write(folder, om, x, y, kind="dims_gears", gears=gears)


def ranged(folder: Path) -> Path:
    x = [Tensor("x", [1, -1], ranges=[(1, 1), (1, 512)])]
    y = [Tensor("y", [1, -1], ranges=[(1, 1), (1, -1)])]
    return write(folder, om_of(x, y, dynamic=1), x, y, kind="range")


class Places:
    def __init__(self) -> None:
        self.arrays: list[Any] = []

    def __call__(self, index: int, shape: tuple[int, ...], dtype: Any) -> Any:
        assert index == len(self.arrays)
        self.arrays.append(np.empty(shape, dtype))
        return self.arrays[-1]


def run(graph: Any, *inputs: Any) -> list[Any]:
    places = Places()
    graph.run(list(inputs), places)
    return places.arrays


def test_runs_every_kind(runtime: Any, tmp_path: Path):
    device = open_device(0, {})
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    graph = device.load(static(tmp_path), {})
    assert graph.description.kind == "static"
    assert graph.description.soc == "Ascend910B3"
    assert (run(graph, x)[0] == x * 2).all()
    graph = device.load(batch_gears(tmp_path), {})
    assert graph.description.kind == "batch_gears"
    for rows in (1, 4, 1):
        x = np.random.default_rng(rows).random((rows, 3), np.float32)
        assert (run(graph, x)[0] == x * 2).all()
    graph = device.load(dims_gears(tmp_path), {})
    assert graph.description.gears == ({"x": (1, 64), "m": (1, 64)}, {"x": (1, 128), "m": (1, 128)})
    for length in (128, 64):
        x = np.random.default_rng(length).random((1, length), np.float32)
        assert (run(graph, x, np.ones_like(x))[0] == x * 2).all()
    graph = device.load(ranged(tmp_path), {})
    assert graph.description.inputs[0].ranges == ((1, 1), (1, 512))
    for length in (1, 512, 77):
        x = np.random.default_rng(length).random((1, length), np.float32)
        assert (run(graph, x)[0] == x * 2).all()
    device.close()


def test_the_words_for_the_kinds_are_those_that_the_tool_takes(runtime: Any):
    interface = importlib.import_module("ais_bench.infer.interface")
    assert "_dims" in dir(interface.InferSession)
    assert set(ais_bench.MODES.values()) <= {"static", "dymbatch", "dymhw", "dymdims", "dymshape"}


def test_a_wrong_dtype_of_the_right_size_never_reaches_the_device(runtime: Any, tmp_path: Path):
    graph = open_device(0, {}).load(static(tmp_path), {})
    with pytest.raises(DeviceFault, match="input x is FP32 in this model and the array is INT32") as caught:
        run(graph, np.ones((2, 3), np.int32))
    assert caught.value.action is Action.REQUEST
    run(graph, np.ones((2, 3), np.float32))


@pytest.mark.parametrize(
    ("make", "inputs", "says"),
    [
        (static, [np.ones((3, 3), np.float32)], r"input x has the shape \[3, 3\]; the model was built for \[2, 3\]"),
        (batch_gears, [np.ones((2, 3), np.float32)], r"no gear for x \[2, 3\]; .* x \[1, 3\]; x \[4, 3\]"),
        (dims_gears, [np.ones((1, 65), np.float32)] * 2, r"no gear for .*\[1, 65\]; .*\[1, 64\]"),
        (dims_gears, [np.ones((1, 64), np.float32)], "takes 2 inputs"),
        (ranged, [np.ones((1, 513), np.float32)], r"axis 1 must be 1 to 512"),
    ],
)
def test_a_shape_that_the_graph_lacks_is_the_requests_fault(
    runtime: Any, tmp_path: Path, make: Callable[[Path], Path], inputs: list[Any], says: str
):
    graph = open_device(0, {}).load(make(tmp_path), {})
    with pytest.raises(DeviceFault, match=says) as caught:
        run(graph, *inputs)
    assert caught.value.action is Action.REQUEST
    assert graph.session is not None, "the session is as good as before"


def test_outputs_of_free_shapes_may_be_longer_than_the_tools_default(runtime: Any, tmp_path: Path):
    x = [Tensor("x", [1, -1], ranges=[(1, 1), (1, -1)])]
    file = write(tmp_path, om_of(x, [Tensor("y", [1, -1])], dynamic=1), x, [Tensor("y", [1, -1])], kind="range")
    second_of_audio = np.ones((1, 48_000), np.float32)
    assert run(open_device(0, {}).load(file, {}), second_of_audio)[0].shape == (1, 48_000)
    small = open_device(0, {"max_output_bytes": "1000"}).load(file, {})
    with pytest.raises(DeviceFault, match="raise max_output_bytes") as caught:
        run(small, second_of_audio)
    assert caught.value.code == 500002


def test_arrays_that_are_not_contiguous_are_copied_and_held(runtime: Any, tmp_path: Path):
    graph = open_device(0, {}).load(static(tmp_path), {})
    base = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert (run(graph, base[::2])[0] == base[::2] * 2).all()
    assert (run(graph, np.asfortranarray(base[:2]))[0] == base[:2] * 2).all()


def test_the_real_code_is_read_from_what_the_tool_prints(
    runtime: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    file = static(tmp_path)
    graph = open_device(0, {}).load(file, {})
    Path(f"{file}.fail").write_text("ret:507011 E19999 inner error")
    with pytest.raises(DeviceFault) as caught:
        run(graph, np.ones((2, 3), np.float32))
    fault = caught.value
    assert (fault.code, fault.action) == (507011, Action.RESTART)
    assert "ACL: general failure" in fault.text
    assert "E19999" in fault.text
    assert "ret:507011" in capfd.readouterr().err, "it was kept from the log"


@pytest.mark.parametrize(
    ("printed", "code", "action"),
    [
        ("ret:507010", 507010, Action.OUT_OF_SERVICE),
        ("ret:100000", 100000, Action.RESTART),
        ("error code is 507015", 507015, Action.RESTART),
        ("size 507015", 0, Action.RESTART),
        ("", 0, Action.RESTART),
    ],
)
def test_after_any_error_of_a_run_the_process_is_given_up(
    runtime: Any, tmp_path: Path, printed: str, code: int, action: Action
):
    file = static(tmp_path)
    device = open_device(0, {})
    graph = device.load(file, {})
    Path(f"{file}.fail").write_text(printed)
    with pytest.raises(DeviceFault) as caught:
        run(graph, np.ones((2, 3), np.float32))
    assert (caught.value.code, caught.value.action) == (code, action)
    Path(f"{file}.fail").unlink()
    with pytest.raises(DeviceFault, match="the session was given up"):
        run(graph, np.ones((2, 3), np.float32))
    device.close()


def test_a_session_is_not_touched_after_a_failed_set_call(runtime: Any, tmp_path: Path):
    # the file claims gears that the loaded model turns out not to have
    x, y = [Tensor("x", [-1, 3])], [Tensor("y", [4, 3])]
    file = write(tmp_path, om_of(x, y, batches=[1, 4], order=["x"]), x, y, kind="batch_gears", gears=[[4]])
    device = open_device(0, {})
    graph = device.load(file, {})
    with pytest.raises(DeviceFault) as caught:
        run(graph, np.ones((1, 3), np.float32))
    assert caught.value.code == 145013
    with pytest.raises(DeviceFault):
        run(graph, np.ones((4, 3), np.float32))
    device.close()


def test_any_thread_may_run(runtime: Any, tmp_path: Path):
    graph = open_device(0, {}).load(static(tmp_path), {})
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.extend(run(graph, np.ones((2, 3), np.float32))))
    thread.start()
    thread.join()
    assert (results[0] == 2).all()


def test_timings_do_not_pile_up_and_nothing_stays_on_the_device(runtime: Any, tmp_path: Path):
    device = open_device(0, {})
    graph = device.load(static(tmp_path), {})
    for _ in range(50):
        run(graph, np.ones((2, 3), np.float32))
    assert len(graph.session.summary().exec_time_list) == 0
    assert runtime.state.live_buffers == 0
    device.close()
    device.close()
    assert not runtime.state.finalized, "that would end AscendCL for the whole process"


@pytest.mark.parametrize("dtype", ["FP32", "FP16", "INT64", "INT32"])
def test_data_types(runtime: Any, tmp_path: Path, dtype: str):
    graph = open_device(0, {}).load(static(tmp_path, dtype), {})
    x = np.arange(6).reshape(2, 3).astype({"FP32": "f4", "FP16": "f2", "INT64": "i8", "INT32": "i4"}[dtype])
    (y,) = run(graph, x)
    assert y.dtype == x.dtype
    assert (y == x * 2).all()


def test_a_data_type_without_numpy_is_refused(runtime: Any, tmp_path: Path):
    file = static(tmp_path)
    facts = json.loads(Path(f"{file}.json").read_text())
    facts["inputs"][0][1] = "bfloat16"
    Path(f"{file}.json").write_text(json.dumps(facts))
    with pytest.raises(DeviceFault, match="tensor x has the data type bfloat16") as caught:
        open_device(0, {}).load(file, {})
    assert caught.value.action is Action.REFUSE
    assert runtime.sessions[-1].is_freed


def test_files_that_cannot_be_run_are_refused_before_the_tool_sees_them(runtime: Any, tmp_path: Path):
    device = open_device(0, {})
    pickle = tmp_path / "model.om"
    pickle.write_bytes(b"\x80\x04\x95" + bytes(400))
    with pytest.raises(DeviceFault, match=r"model\.om: .*pickle"):
        device.load(pickle, {})
    pickle.write_bytes(builder.image_gears().write())
    with pytest.raises(DeviceFault, match="image gears are not served"):
        device.load(pickle, {})
    assert runtime.sessions == []


def test_a_load_that_fails_is_refused_with_the_real_reason(runtime: Any, tmp_path: Path):
    file = static(tmp_path, load="ret:500002 EE1001 supported socVersion Ascend910B2, model Ascend910B")
    with pytest.raises(DeviceFault, match="built for another chip") as caught:
        open_device(0, {}).load(file, {})
    assert (caught.value.action, caught.value.code) == (Action.REFUSE, 500002)


def test_the_name_clash_is_told(monkeypatch: pytest.MonkeyPatch, runtime: Any):
    monkeypatch.syspath_prepend(str(HERE / "stand_in_clash"))
    with pytest.raises(DeviceFault, match="another product, AISBench's evaluation of language models"):
        open_device(0, {})


def test_a_missing_tool_is_told(monkeypatch: pytest.MonkeyPatch):
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "aclruntime", None)
    with pytest.raises(DeviceFault, match="needs aclruntime, which cannot be imported"):
        open_device(0, {})
    monkeypatch.syspath_prepend(str(STAND_IN))
    monkeypatch.delitem(sys.modules, "aclruntime")
    monkeypatch.setitem(sys.modules, "ais_bench", None)
    with pytest.raises(DeviceFault, match=r"ais_bench is not installed .*install its wheel"):
        open_device(0, {})
    sys.modules.pop("aclruntime", None)


def test_memory_is_asked_through_pyacl_where_that_is_here(
    runtime: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    device = open_device(0, {})
    with pytest.raises(DeviceFault) as caught:
        device.memory()
    assert caught.value.action is Action.RETRY
    device.load(static(tmp_path), {})
    acl = type(sys)("acl")
    acl.rt = type("rt", (), {"get_mem_info": staticmethod(lambda attr: (1 << 20, 2 << 20, 0))})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "acl", acl)
    assert (device.memory().free_bytes, device.memory().total_bytes) == (1 << 20, 2 << 20)
    with pytest.raises(DeviceFault, match=r"needs .*MiB on the device .* are free") as caught:
        device.load(static(tmp_path), {})
    assert caught.value.action is Action.REFUSE


def test_in_a_worker_a_lost_session_is_a_new_process(tmp_path: Path):
    file = static(tmp_path)
    log = Lines()
    settings = tiny_settings(
        runtime=RuntimeEntry("ais_bench", "om_backend.device.ais_bench:open_device"), path=(str(STAND_IN),)
    )
    worker = DeviceWorker(settings, log)
    graph, _ = worker.load(file, {})
    x = np.ones((2, 3), np.float32)
    pid = worker.pid
    fail = Path(f"{file}.fail")
    fail.write_text("ret:507011")
    threading.Timer(0.05, fail.unlink).start()
    (y,) = worker.run(graph, [x])
    assert (y == 2).all()
    assert worker.pid != pid
    assert "507011 ACL_ERROR_RT_MODEL_EXECUTE" in log.text
    with pytest.raises(InvalidArgument):
        worker.run(graph, [x[:1]])
    worker.close()
