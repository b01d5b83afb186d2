"""What runs in a process of its own with the emulator; each function gives something that JSON can carry."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from om_backend.acl import AclDevice, open_device
from om_backend.device.faults import DeviceFault
from om_backend.device.interface import LoadedGraph

from tests.backends.ascend_om.acl import models

Array = np.ndarray[Any, Any]
Dtype = np.dtype[Any]

MAKERS: dict[str, Callable[..., Path]] = {
    "static": models.static,
    "batch_gears": models.batch_gears,
    "dims_gears": models.dims_gears,
    "range": models.ranged,
    "unbounded": models.unbounded,
}


def run(graph: LoadedGraph, *inputs: Array) -> list[Array]:
    """Run and give the outputs as arrays of our own."""
    placed: dict[int, Array] = {}

    def place(index: int, shape: tuple[int, ...], dtype: Dtype) -> Array:
        placed[index] = np.empty(shape, dtype)
        return placed[index]

    graph.run(inputs, place)
    return [placed[index] for index in sorted(placed)]


def told(fault: DeviceFault) -> dict[str, Any]:
    """A fault as JSON."""
    return {
        "action": fault.action.value,
        "code": fault.code,
        "name": fault.code_name,
        "call": fault.call,
        "advice": fault.advice,
        "text": fault.text,
    }


def attempt(function: Callable[..., Any], *args: Any) -> dict[str, Any]:
    """The fault that a call gives, or {"action": ""}."""
    try:
        function(*args)
    except DeviceFault as fault:
        return told(fault)
    return {"action": "", "code": 0}


def ramp(*shape: int, dtype: Any = np.float32, start: float = 0.5) -> Array:
    count = int(np.prod(shape))
    return (np.arange(count) % 97 + start).astype(dtype).reshape(shape)


def exercise(kind: str, graph: LoadedGraph, salt: int = 0) -> bool:
    """Run every shape of a kind; whether all results are right to the last bit, with nothing of an earlier run."""
    right = []
    if kind == "static":
        x = ramp(2, 8, start=salt)
        right.append(np.array_equal(run(graph, x)[0], x * 2))
    elif kind == "batch_gears":
        for batch in (4, 1, 2, 1):
            x = ramp(batch, 8, start=salt + batch)
            (y,) = run(graph, x)
            right.append(y.shape == x.shape and np.array_equal(y, x * 2))
    elif kind == "dims_gears":
        for length in (64, 16, 32, 16):
            x, mask = ramp(1, 2, length, start=salt), (np.arange(length) % 2).astype(np.float32)[None]
            y, total = run(graph, x, np.array([2], np.float32), mask)
            right.append(np.array_equal(y, x * mask) and np.allclose(total, (x * mask).sum() * 2))
    elif kind == "range":
        for shape in ((8, 512), (1, 1), (3, 7), (3, 70), (8, 512), (1, 512)):
            x = ramp(*shape, start=salt)
            (y,) = run(graph, x)
            right.append(y.shape == shape and np.array_equal(y, x * 2))
    else:
        for durations in (np.array([3, 4]), np.array([1]), np.array([1000, 2000, 500]), np.array([2])):
            y, count = run(graph, np.array([salt], np.float32), durations.astype(np.int64))
            frames = int(durations.sum())
            right.append(y.shape == (frames,) and bool((y == salt).all()) and int(count[0]) == frames)
    return all(right)


def runs(folder: Path, kind: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Load, describe, run all shapes twice, close twice."""
    device = open_device(0, options)
    before = device.memory()
    graph = device.load(MAKERS[kind](folder / "m.om"), {})
    loaded = device.memory()
    right = exercise(kind, graph, 1) and exercise(kind, graph, 2)
    description = graph.description.to_json()
    graph.close()
    graph.close()
    after = device.memory()
    device.close()
    device.close()
    return {
        "right": right,
        "description": description,
        "taken": before.free_bytes - loaded.free_bytes,
        "lost": before.free_bytes - after.free_bytes,
    }


def several_at_once(folder: Path) -> bool:
    """One graph of each kind at once, run in turns; closed by the device."""
    device = open_device(0, {})
    graphs = [(kind, device.load(make(folder / f"{kind}.om"), {})) for kind, make in MAKERS.items()]
    right = [exercise(kind, graph, salt) for salt in range(3) for kind, graph in graphs]
    graphs[0][1].close()
    device.close()
    return all(right)


def reloads(folder: Path, times: int) -> dict[str, Any]:
    """Load, run and close again and again; memory as before."""
    device = open_device(0, {})
    files = {kind: make(folder / f"{kind}.om") for kind, make in MAKERS.items()}
    before = device.memory().free_bytes
    right = []
    for turn in range(times):
        kind = list(files)[turn % len(files)]
        graph = device.load(files[kind], {})
        right.append(exercise(kind, graph, turn))
        graph.close()
    lost = before - device.memory().free_bytes
    device.close()
    return {"right": all(right), "lost": lost}


def reopens(folder: Path, times: int) -> bool:
    """Open and close the device again and again in one process."""
    file = models.static(folder / "m.om")
    right = []
    for turn in range(times):
        device = open_device(0, {})
        right.append(exercise("static", device.load(file, {}), turn))
        device.close()
    return all(right)


def two_users(folder: Path) -> bool:
    """Two runtimes of one process on one device; the first to come closes first."""
    file = models.static(folder / "m.om")
    first, second = open_device(0, {}), open_device(0, {})
    one, two = first.load(file, {}), second.load(file, {})
    right = exercise("static", one, 1) and exercise("static", two, 2)
    first.close()
    right = right and exercise("static", two, 3)
    second.close()
    return right


def threads(folder: Path) -> bool:
    """Load in one thread, run in others, one graph per thread at once, close in yet another."""
    device = open_device(0, {})
    graphs: list[tuple[str, LoadedGraph]] = []
    right: list[bool] = []

    def in_thread(*bodies: Callable[[], Any]) -> None:
        started = [threading.Thread(target=body) for body in bodies]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()

    def load() -> None:
        graphs.extend((kind, device.load(make(folder / f"{kind}.om"), {})) for kind, make in MAKERS.items())

    def loop(kind: str, graph: LoadedGraph) -> None:
        right.extend(exercise(kind, graph, salt) for salt in range(20))

    in_thread(load)
    in_thread(*(lambda kind=kind, graph=graph: loop(kind, graph) for kind, graph in graphs))
    # several threads on one graph: they take turns
    kind, graph = graphs[2]
    in_thread(*(lambda: loop(kind, graph) for _ in range(3)))
    in_thread(device.memory)
    in_thread(device.close)
    return all(right) and len(right) == 20 * (len(graphs) + 3)


def _bad_inputs(kind: str) -> Sequence[Sequence[Array]]:
    one, long = np.ones(1, np.float32), np.ones((1, 17), np.float32)
    bad: dict[str, Sequence[Sequence[Array]]] = {
        "static": ([ramp(2, 9)], [ramp(2, 8, dtype=np.float16)], [], [ramp(2, 8)] * 2),
        "batch_gears": ([ramp(3, 8)], [ramp(1, 9)], [ramp(8)]),
        "dims_gears": ([ramp(1, 2, 17), one, long], [ramp(1, 2, 16), one, ramp(1, 32)]),
        "range": ([ramp(9, 1)], [ramp(1, 513)], [ramp(4)], [ramp(0, 1)]),
        "unbounded": ([one, np.zeros(0, np.int64)], [one, np.ones(2, np.int32)]),
    }
    return bad[kind]


def refusals(folder: Path, kind: str) -> dict[str, Any]:
    """Requests that are refused, each followed by good ones."""
    device = open_device(0, {})
    graph = device.load(MAKERS[kind](folder / "m.om"), {})
    faults, right = [], []
    for inputs in _bad_inputs(kind):
        faults.append(attempt(run, graph, *inputs))
        right.append(exercise(kind, graph))
    device.close()
    return {"faults": faults, "right": all(right)}


def open_and_load(folder: Path, maker: str, more: dict[str, Any], options: dict[str, str]) -> dict[str, Any]:
    """Open, load one model beside another, run the other one still."""
    device = open_device(0, {})
    other = device.load(models.static(folder / "other.om"), {})
    before = device.memory().free_bytes
    fault = attempt(device.load, getattr(models, maker)(folder / "m.om", **more), options)
    lost = before - device.memory().free_bytes
    right = exercise("static", other)
    device.close()
    return {**fault, "lost": lost, "right": right}


def only_load(folder: Path, maker: str, more: dict[str, Any]) -> dict[str, Any]:
    """Open and load one model."""
    device = open_device(0, {})
    fault = attempt(device.load, getattr(models, maker)(folder / "m.om", **more), {})
    device.close()
    return fault


def only_open(_folder: Path, device_id: int) -> dict[str, Any]:
    """Open a device that cannot be opened."""
    return attempt(open_device, device_id, {})


def output_growth(folder: Path, first: int, options: dict[str, str]) -> dict[str, Any]:
    """An output larger than its buffer, then small ones, then as large again."""
    device = open_device(0, options)
    graph = device.load(models.unbounded(folder / "m.om"), {})
    before = graph.description.memory.buffers_bytes
    x = np.array([3], np.float32)
    right, faults = [], []
    for total in (first, 5, first, first + 100):
        fault = attempt(lambda total=total: right.append((run(graph, x, np.array([total], np.int64))[0] == 3).all()))
        faults.append(fault)
    grown = graph.description.memory.buffers_bytes - before
    device.close()
    return {"right": bool(all(right)), "faults": faults, "grown": grown}


def injected(folder: Path, cases: Sequence[tuple[str, str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """One case after the other: a kind of model, when the fault comes, and which; each with a device opened for it."""
    from acl import control
    from acl.emulation.state import ledger

    results = []
    for number, (kind, when, fault) in enumerate(cases):
        (folder / str(number)).mkdir()
        before = control.violation_count(), ledger.report.counters["injected_faults"]
        result = _injected(MAKERS[kind](folder / str(number) / "m.om"), kind, when, fault)
        ledger.faults._armed.clear()
        new = control.violation_count() - before[0]
        results.append(
            {
                **result,
                "violations": [f"{v['call']}: {v['sentence']}" for v in control.violations()[-new:]] if new else [],
                "leaks": [f"{leak['what']} of {leak['site']}" for leak in control.leaks()],
                "injected": ledger.report.counters["injected_faults"] - before[1],
            }
        )
    return results


def _injected(file: Path, kind: str, when: str, fault: dict[str, Any]) -> dict[str, Any]:
    """A fault injected into ``open``, ``load``, ``run`` or ``close``; then whatever still can be done is tried."""
    import acl

    if when == "open":
        acl.emulator_control(fault)
        return {"fault": attempt(open_device, 0, {}), "again": attempt(_whole, file, kind)}
    device = open_device(0, {"watchdog_ms": "2000"})
    if when == "load":
        acl.emulator_control(fault)
        result = {"fault": attempt(device.load, file, {}), "again": attempt(device.load, file, {})}
    else:
        graph = device.load(file, {})
        if when != "run":
            exercise(kind, graph)
        acl.emulator_control(fault)
        result = {}
        if when == "memory":
            result = {"fault": attempt(device.memory)}
        elif when != "close":
            result = {"fault": attempt(exercise, kind, graph), "again": attempt(exercise, kind, graph)}
    device.close()
    return result


def _whole(file: Path, kind: str) -> None:
    device = open_device(0, {})
    exercise(kind, device.load(file, {}))
    device.close()


def hang(folder: Path, latency_ms: int, close_after_s: float) -> dict[str, Any]:
    """A run that does not end within the watchdog's time, then an attempt to go on, then the end."""
    import acl

    device = open_device(0, {"watchdog_ms": "200"})
    graph = device.load(models.static(folder / "m.om"), {})
    acl.emulator_control({"latency_ms": latency_ms})
    start = time.monotonic()
    fault = attempt(exercise, "static", graph)
    waited_s = time.monotonic() - start
    again = attempt(exercise, "static", graph)
    other = attempt(device.load, folder / "m.om", {})
    time.sleep(close_after_s)
    start = time.monotonic()
    device.close()
    return {
        "fault": fault,
        "waited_s": waited_s,
        "again": again,
        "other": other,
        "close_s": time.monotonic() - start,
    }


def calls_per_run(folder: Path, kind: str) -> dict[str, int]:
    """AscendCL calls of runs after the first one of each shape, per exercise."""
    from acl import control

    device = open_device(0, {})
    graph = device.load(MAKERS[kind](folder / "m.om"), {})
    exercise(kind, graph)
    before = control.call_counts()
    exercise(kind, graph)
    after = control.call_counts()
    device.close()
    return {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}


def copied_bytes(folder: Path, kind: str) -> list[tuple[int, int]]:
    """Direction and byte count of every copy of one exercise."""
    import acl

    copies = []
    true = acl.rt.memcpy_async

    def noted(*args: int) -> int:
        copies.append((args[4], args[3]))
        return int(true(*args))

    acl.rt.memcpy_async = noted  # type: ignore[assignment]
    device = open_device(0, {})
    exercise(kind, device.load(MAKERS[kind](folder / "m.om"), {}))
    device.close()
    return copies


def forked(folder: Path) -> Any:
    """What a child forked from a process with an open device is told."""
    import json
    import os

    device: AclDevice = open_device(0, {})
    graph = device.load(models.static(folder / "m.om"), {})
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, json.dumps([attempt(exercise, "static", graph), attempt(open_device, 0, {})]).encode())
        os._exit(0)
    os.waitpid(child, 0)
    answer = json.loads(os.read(read, 1 << 16))
    device.close()
    return answer


def half(folder: Path) -> dict[str, Any]:
    """A graph of FP16, given FP16 and then FP32."""
    device = open_device(0, {})
    graph = device.load(models.static(folder / "m.om", "FP16"), {})
    x = ramp(2, 8, dtype=np.float16)
    right = bool((run(graph, x)[0] == x * 2).all())
    fault = attempt(run, graph, x.astype(np.float32))
    dtype = graph.description.inputs[0].dtype
    device.close()
    return {"dtype": dtype, "right": right, "fault": fault["action"]}


def long_names(folder: Path) -> list[str]:
    """Names of the inputs of a graph with a name too long for AscendCL."""
    device = open_device(0, {})
    graph = device.load(models.long_name(folder / "m.om"), {})
    names = [tensor.name for tensor in graph.description.inputs]
    device.close()
    return names


def after_the_end(folder: Path) -> list[str]:
    """What a closed graph and a closed device answer."""
    device = open_device(0, {})
    file = models.static(folder / "m.om")
    graph = device.load(file, {})
    graph.close()
    closed = attempt(exercise, "static", graph)
    device.close()
    return [fault["action"] for fault in (closed, attempt(device.load, file, {}), attempt(device.memory))]


def host_cost(folder: Path, kind: str, times: int) -> dict[str, float]:
    """Microseconds per run with the emulator, and those of the runtime alone (the library's functions do nothing)."""
    device = open_device(0, {})
    graph = device.load(MAKERS[kind](folder / "m.om"), {})
    inputs = {
        "static": [ramp(2, 8)],
        "batch_gears": [ramp(4, 8)],
        "dims_gears": [ramp(1, 2, 64), np.ones(1, np.float32), np.ones((1, 64), np.float32)],
    }[kind]
    outputs = run(graph, *inputs)

    def place(index: int, _shape: tuple[int, ...], _dtype: Dtype) -> Array:
        return outputs[index]

    def best() -> float:
        least = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(times):
                graph.run(inputs, place)
            least = min(least, (time.perf_counter() - start) / times * 1e6)
        return least

    whole = best()
    functions = graph._session.run._functions  # type: ignore[attr-defined]
    true = dict(functions)
    functions.update(dict.fromkeys(functions, lambda *_: 0))
    own = best()
    functions.update(true)
    device.close()
    return {"whole_us": whole, "own_us": own}
