"""Faults made to order: by call, latency, memory, lost device, memory errors; by the process or files (point 17)."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.emulator import makers
from tests.emulator.makers import run_function

if TYPE_CHECKING:
    import threading

    import acl
    import numpy as np

    from tests.emulator.session import Model, Session, floats, ok


def test_fails_the_next_calls_of_a_function_after_skipping_some(tmp_path: Path) -> None:
    def program() -> None:
        session = Session()
        acl.control.fail_next("rt.malloc", 207001, count=2, skip=1, text="EL0004: made to order")
        pointer = ok(acl.rt.malloc(64, 0))
        assert acl.rt.malloc(64, 0) == (0, 207001)
        assert acl.get_recent_err_msg() == "EL0004: made to order"
        assert acl.rt.malloc(64, 0) == (0, 207001)
        ok(acl.rt.free(ok(acl.rt.malloc(64, 0))))
        ok(acl.rt.free(pointer))
        acl.control.fail_next("mdl.create_dataset", 1)
        assert acl.mdl.create_dataset() == 0
        session.close()

    ended = run_function(tmp_path, program)
    assert (ended.violations, ended.leaks) == ([], [])
    assert ended.end["injected_faults"] == 3


def test_does_not_count_as_a_leak_what_could_not_be_released_by_order(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        pointer = ok(acl.rt.malloc(64, 0))
        acl.control.fail_next("rt.free", 107000)
        assert acl.rt.free(pointer) == 107000
        number = ok(acl.mdl.load_from_file(path))
        acl.control.fail_next("mdl.unload", 545009)
        assert acl.mdl.unload(number) == 545009
        acl.control.fail_next("rt.destroy_stream", 107000)
        assert acl.rt.destroy_stream(session.stream) == 107000
        ok(acl.rt.destroy_context(session.context))
        ok(acl.rt.reset_device(0))
        ok(acl.finalize())

    ended = run_function(tmp_path, program, makers.write_static(tmp_path / "m.om"))
    assert (ended.violations, ended.leaks) == ([], [])


def test_forgets_queued_work_when_a_wait_fails_by_order(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        for code in (507002, 507046):
            acl.control.fail_next("rt.synchronize_stream_with_timeout", code)
            assert model.run(floats(2, 8), floats(2, 1)) == code
        assert model.run(floats(2, 8), floats(2, 1)) == 0
        model.close()
        session.close()

    ended = run_function(tmp_path, program, makers.write_static(tmp_path / "m.om"))
    assert (ended.violations, ended.leaks) == ([], [])


def test_times_a_wait_out_while_the_work_goes_on(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        acl.emulator_control({"latency_ms": 400})
        model.put(floats(2, 8), floats(2, 1))
        assert session.synchronise(1000) == 0, "copies have no latency"
        start = time.monotonic()
        assert model.start() == 0
        assert session.synchronise(100) == 507046
        assert 0.09 < time.monotonic() - start < 5
        assert session.synchronise(50) == 507046
        assert session.synchronise(2000) == 0
        assert 0.39 < time.monotonic() - start < 5
        model.outputs[0].fetch(session.stream)
        assert session.synchronise(1000) == 0
        assert np.array_equal(model.outputs[0].floats(2, 8), floats(2, 8) * floats(2, 1))
        assert acl.rt.synchronize_stream_with_timeout(session.stream, -2) == 100000
        model.close()
        session.close()

    ended = run_function(tmp_path, program, makers.write_static(tmp_path / "m.om"))
    assert (ended.violations, ended.leaks) == ([], [])


def test_times_a_second_waiting_thread_out_on_its_own_clock(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        acl.emulator_control({"latency_ms": 500})
        assert model.start() == 0
        codes: list[int] = []

        def other() -> None:
            ok(acl.rt.set_context(session.context))
            codes.append(session.synchronise(50))

        thread = threading.Thread(target=other)
        thread.start()
        assert session.synchronise() == 0
        thread.join()
        assert codes == [507046]
        model.close()
        session.close()

    run_function(tmp_path, program, makers.write_static(tmp_path / "m.om"))


def test_answers_nothing_on_a_lost_device(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        acl.emulator_control({"device_lost": True})
        assert model.start() == 507010
        assert session.synchronise() == 507010
        assert acl.rt.get_mem_info(1) == (0, 0, 507010)
        assert acl.rt.query_device_status(0) == (1, 0)
        assert acl.rt.reset_device(0) == 0
        assert acl.rt.set_device(0) == 507033

    run_function(tmp_path, program, makers.write_static(tmp_path / "m.om"))


def test_reports_a_memory_error_at_the_next_wait(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        acl.emulator_control({"ecc": True})
        assert model.start() == 0
        assert session.synchronise() == 507054
        assert model.start() == 507054

    run_function(tmp_path, program, makers.write_static(tmp_path / "m.om"))


def test_shrinks_the_device_memory_by_order(tmp_path: Path) -> None:
    def program() -> None:
        session = Session()
        acl.emulator_control({"memory_bytes": 1000})
        assert acl.rt.malloc(2000, 0) == (0, 207001)
        assert acl.rt.get_mem_info(1) == (1000, 1000, 0)
        session.close()

    assert run_function(tmp_path, program).violations == []


def test_takes_faults_from_files_once_and_in_the_process_that_makes_the_call(tmp_path: Path) -> None:
    def program(folder: str) -> None:
        session = Session()
        pointer = ok(acl.rt.malloc(64, 0))

        def offer(name: str, text: str) -> None:
            new = Path(folder) / ".new"
            new.write_text(text)
            new.rename(Path(folder) / name)

        def offered() -> list[str]:
            return [file.name for file in Path(folder).iterdir()]

        offer("a.json", '{"function": "rt.malloc", "code": 207018, "count": 1}')
        ok(acl.rt.memset(pointer, 64, 0, 64))
        assert offered() == ["a.json"], "not claimed by a process that makes other calls"
        assert acl.rt.malloc(64, 0) == (0, 207018)
        assert offered() == [f"a.json.claimed.{os.getpid()}"]
        ok(acl.rt.free(ok(acl.rt.malloc(64, 0))))
        offer("b.json", '{"function": "rt.malloc", "code": 207018, "count": -1, "sticky": true}')
        assert [acl.rt.malloc(64, 0) for _ in range(3)] == [(0, 207018)] * 3
        (Path(folder) / "b.json").unlink()
        ok(acl.rt.free(ok(acl.rt.malloc(64, 0))))
        ok(acl.rt.free(pointer))
        session.close()

    folder = tmp_path / "faults"
    folder.mkdir()
    ended = run_function(tmp_path, program, folder, fault_dir=str(folder))
    assert (ended.violations, ended.leaks) == ([], [])


def test_sets_a_file_aside_that_describes_no_fault(tmp_path: Path) -> None:
    def program(folder: str) -> None:
        session = Session()
        session.close()
        assert sorted(file.name for file in Path(folder).iterdir()) == ["half.json", "wrong.json.bad"]

    folder = tmp_path / "faults"
    folder.mkdir()
    (folder / "wrong.json").write_text(json.dumps({"function": "rt.malloc", "cod": 1}))
    (folder / "half.json").write_text('{"function": ')
    then = time.time() - 10  # so that it cannot be one that is being written
    os.utime(folder / "wrong.json", (then, then))
    violations = run_function(tmp_path, program, folder, fault_dir=str(folder)).violations
    assert len(violations) == 1
    assert "unknown key 'cod'" in violations[0]
