"""The stub's side against real worker processes: starts, loads and good runs."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from om_backend.device.faults import Action
from om_backend.device.observer import State
from om_backend.device.policy import RestartPolicy

from voxrepo_contract.errors import ConfigError, Unavailable

from .client_calls import QUICK, Make, Write, call, wait_for, worker_pid
from .conftest import Lines, is_alive, shed, tiny_settings
from .tiny_runtime import BY_ACTION


def test_loads_and_runs_in_another_process(make_worker: Make, graph_file: Write, log: Lines):
    worker = make_worker(options={"greeting": "care"}, device_id=3)
    graph, description = worker.load(graph_file(outputs=["y", "z"]), {})
    assert [tensor.name for tensor in description.outputs] == ["y", "z"]
    assert description.memory.total_bytes == 1230
    outputs = call(worker, graph)
    assert len(outputs) == 2
    assert worker_pid(worker) != os.getpid()
    assert is_alive(worker_pid(worker))
    memory = worker.memory()
    assert memory is not None
    assert memory.total_bytes == 2 << 30
    assert "device 3 opened with care" in log.text


def test_what_the_worker_prints_reaches_the_log_with_its_letters(make_worker: Make, graph_file: Write, log: Lines):
    worker = make_worker()
    worker.load(graph_file(), {})
    line = f"info: worker {worker.pid}: b\u00fc\u4f60 on standard output"
    end = time.monotonic() + 5  # it comes through a thread of its own, after the load's answer perhaps
    while line not in log.text and time.monotonic() < end:
        time.sleep(0.01)
    assert line in log.text


def test_results_stay_as_they_were_when_the_next_run_comes(make_worker: Make, graph_file: Write):
    worker = make_worker()
    graph, _ = worker.load(graph_file(), {})
    kept = [call(worker, graph, value=value)[0] for value in range(5)]
    assert [float(array[0, 0]) for array in kept] == [0, 2, 4, 6, 8]
    kept[0][:] = -1
    assert float(call(worker, graph, value=9)[0][0, 0]) == 18


def test_several_graphs_share_a_worker(make_worker: Make, graph_file: Write):
    worker = make_worker()
    graphs = [worker.load(graph_file(f"{n}.json", factor=float(n)), {})[0] for n in range(1, 4)]
    x, command = np.ones((2, 3), np.float32), np.zeros(1, np.int64)
    assert [float(worker.run(graph, [x, command])[0][1, 2]) for graph in graphs] == [1, 2, 3]
    worker.unload(graphs[0])
    worker.unload(graphs[0])
    assert float(worker.run(graphs[1], [x, command])[0][0, 0]) == 2


def test_arrays_of_any_layout_and_size_travel(make_worker: Make, graph_file: Write):
    worker = make_worker()
    graph, _ = worker.load(graph_file(), {})
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    for x in (base[::2], base.T, base[:, ::-1], base[:0], base[:, :1]):
        (y,) = worker.run(graph, [x, np.zeros(1, np.int64)])
        assert y.shape == x.shape
        assert (y == x * 2).all()


def test_a_graph_is_not_loaded_again_from_a_file_that_was_changed(make_worker: Make, graph_file: Write, tokens: Path):
    worker = make_worker(policy=RestartPolicy(max_in_a_row=1))
    file = graph_file()
    graph, _ = worker.load(file, {})
    graph_file(factor=20.0)
    shed(tokens)
    with pytest.raises(Unavailable):
        call(worker, graph, BY_ACTION[Action.RELOAD])
    wait_for(worker, State.OUT_OF_SERVICE)


def test_a_graph_that_was_replaced_on_disk_is_not_loaded_again(make_worker: Make, graph_file: Write, log: Lines):
    policy = RestartPolicy(first_delays_s=(0.0, 0.01), longest_delay_s=0.05, max_in_a_row=2)
    worker = make_worker(policy)
    graph, _ = worker.load(graph_file(), {})
    graph_file(factor=3.0)
    os.kill(worker_pid(worker), signal.SIGKILL)
    wait_for(worker, State.OUT_OF_SERVICE)
    assert "was changed after it was loaded; restart the server" in log.text
    with pytest.raises(Unavailable):
        call(worker, graph)


def test_a_refused_load_names_the_file_and_leaves_the_others_alone(
    make_worker: Make, graph_file: Write, tmp_path: Path
):
    worker = make_worker()
    graph, _ = worker.load(graph_file(), {})
    with pytest.raises(ConfigError) as caught:
        worker.load(graph_file("bad.json", refuse="built for Ascend910B, this is Ascend310P3"), {})
    assert caught.value.message == (
        f"{tmp_path / 'bad.json'}: built for Ascend910B, this is Ascend310P3 (tiny.load: 500002 TINY; EE1001)"
    )
    with pytest.raises(ConfigError, match=r"missing\.json: cannot be read: No such file"):
        worker.load(tmp_path / "missing.json", {})
    call(worker, graph)


def test_a_file_that_kills_the_worker_is_refused_and_the_others_go_on(make_worker: Make, graph_file: Write):
    worker = make_worker()
    graph, _ = worker.load(graph_file(), {})
    with pytest.raises(Unavailable, match=r"deadly\.json: the device worker was ended by SIGKILL"):
        worker.load(graph_file("deadly.json", deadly=True), {})
    wait_for(worker, State.READY)
    call(worker, graph)


def test_a_device_that_cannot_be_opened_refuses_the_load_and_can_be_tried_again(
    make_worker: Make, graph_file: Write, tmp_path: Path
):
    gate = tmp_path / "gate"
    gate.write_text(Action.REFUSE.value)
    worker = make_worker(options={"gate": str(gate)})
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"the gate is shut \(tiny\.open: 507033\)"):
            worker.load(graph_file(), {})
    gate.unlink()
    graph, _ = worker.load(graph_file(), {})
    call(worker, graph)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"python": "/nowhere/python3"}, "/nowhere/python3 cannot be started: No such file"),
        ({"python": "/bin/false"}, "the device worker ended with status 1"),
        ({"packages": {}}, "the runtime 'tiny' cannot be used by .*: No module named 'tiny_runtime'"),
    ],
)
def test_a_worker_that_cannot_work_says_why(make_worker: Make, graph_file: Write, changes: Any, says: str):
    with pytest.raises(ConfigError, match=says):
        make_worker(**changes).load(graph_file(), {})


def test_a_worker_that_says_nothing_is_given_up(make_worker: Make, graph_file: Write, tmp_path: Path):
    sleeper = tmp_path / "python"
    sleeper.write_text("#!/bin/sh\necho nothing to say\nexec sleep 60\n")
    sleeper.chmod(0o755)
    worker = make_worker(python=str(sleeper), limits=replace(QUICK, start=0.5))
    with pytest.raises(ConfigError, match=r"did not start: no answer within 0\.5 s"):
        worker.load(graph_file(), {})


def test_a_python_that_is_too_old_says_so(make_worker: Make, graph_file: Write, tmp_path: Path):
    old = tmp_path / "python"
    command = "import sys; sys.stderr.write('the device worker needs Python 3.10 or later\\n'); sys.exit(3)"
    old.write_text(f'#!/bin/sh\nexec {tiny_settings().python} -c "{command}"\n')
    old.chmod(0o755)
    with pytest.raises(ConfigError, match=r"status 3; its last words: .*needs Python 3\.10 or later"):
        make_worker(python=str(old)).load(graph_file(), {})
