"""Work done when it is waited for, poisoned contexts, one model on two streams, the interpreter lock (points 14-16)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.emulator import makers
from tests.emulator.makers import run_function

if TYPE_CHECKING:
    import asyncio
    import threading
    import time

    import acl
    import numpy as np

    from tests.emulator.session import Model, Session, floats, ok


def test_computes_when_the_stream_is_waited_for(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        x = floats(2, 8)
        model.put(x, floats(2, 1))
        assert model.start() == 0
        model.outputs[0].view[:] = 0
        ok(acl.rt.memcpy(model.outputs[0].host, 64, model.outputs[0].device, 64, 2))
        assert np.isnan(model.outputs[0].floats(2, 8)).all(), "nothing is there yet"
        assert acl.control.violations()[0]["sentence"].endswith("synchronise its stream first")
        model.inputs[0].view.view(np.float32)[0] = 50  # the pinned source is read at the wait
        assert session.synchronise() == 0
        model.outputs[0].fetch(session.stream)
        assert session.synchronise() == 0
        assert model.outputs[0].floats(2, 8)[1, 0] == 8
        assert model.outputs[0].floats(2, 8)[0, 0] == 0
        assert model.run(floats(2, 8), floats(2, 1) + 1) == 0
        model.close()
        session.close()

    assert len(run_function(tmp_path, program, makers.write_static(tmp_path / "m.om")).violations) == 1


def test_poisons_the_context_until_the_device_is_reset(tmp_path: Path) -> None:
    def program(path: str, code: str) -> None:
        session = Session()
        model = Model(session, path)
        acl.emulator_control({"function": "device.task", "code": int(code), "text": "EZ9999: vector core"})
        assert model.start() == 0, "asynchronous faults do not show when work is queued"
        assert session.synchronise() == int(code)
        assert "EZ9999" in (acl.get_recent_err_msg() or "")
        assert model.start() == int(code)
        assert acl.rt.malloc(64, 0) == (0, int(code))
        assert acl.rt.free(model.inputs[0].device) == int(code)
        assert acl.mdl.unload(model.id) == int(code)
        ok(acl.mdl.destroy_dataset(model.input_set))
        ok(acl.mdl.destroy_dataset(model.output_set))
        for buffer in (*model.inputs, *model.outputs):
            ok(acl.destroy_data_buffer(buffer.handle))
            ok(acl.rt.free_host(buffer.host))
        ok(acl.mdl.destroy_desc(model.desc))
        ok(acl.rt.reset_device(0))
        fresh = Session(init=False)
        again = Model(fresh, path)
        assert again.run(floats(2, 8), floats(2, 1)) == 0
        again.close()
        fresh.close()

    for code in (507015, 507035):
        ended = run_function(tmp_path / str(code), program, makers.write_static(tmp_path / "m.om"), code)
        assert (ended.violations, ended.leaks) == ([], []), "what a dead device keeps is nobody's leak"
        assert ended.end["left_on_a_dead_device"] > 0


def test_records_one_model_queued_on_two_streams(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        first, second = Model(session, path), Model(session, path)
        other = ok(acl.rt.create_stream())
        assert first.start() == 0
        assert acl.mdl.execute_async(second.id, second.input_set, second.output_set, other) == 0
        assert acl.control.violation_count() == 0, "two models on two streams are fine"
        ok(acl.rt.synchronize_stream(other))
        assert acl.mdl.execute_async(first.id, second.input_set, second.output_set, other) == 0
        assert acl.control.violation_count() == 1
        ok(acl.rt.synchronize_stream(other))
        assert session.synchronise() == 0
        ok(acl.rt.destroy_stream(other))
        first.close()
        second.close()
        session.close()

    violations = run_function(tmp_path, program, makers.write_static(tmp_path / "m.om")).violations
    assert "another stream" in violations[0]


def test_records_the_end_of_what_queued_work_needs(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        assert model.start() == 0
        assert acl.mdl.unload(model.id) == 107037
        ok(acl.update_data_buffer(model.inputs[0].handle, model.inputs[0].device, 64))
        ok(acl.destroy_data_buffer(acl.create_data_buffer(0, 0)))
        assert session.synchronise() == 0
        model.close()
        session.close()

    violations = run_function(tmp_path, program, makers.write_static(tmp_path / "m.om")).violations
    assert ["unloaded while" in violations[0], "changed while" in violations[1]] == [True, True]
    assert len(violations) == 2


def test_records_synchronous_runs_in_the_thread_of_an_event_loop_only(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        model.put(floats(2, 8), floats(2, 1))
        assert session.synchronise() == 0
        ok(acl.mdl.execute(model.id, model.input_set, model.output_set))
        assert acl.control.violation_count() == 0

        async def handler() -> None:
            ok(acl.mdl.execute(model.id, model.input_set, model.output_set))

        asyncio.run(handler())
        model.close()
        session.close()

    ended = run_function(tmp_path, program, makers.write_static(tmp_path / "m.om"))
    assert len(ended.violations) == 1
    assert "event loop" in ended.violations[0]
    assert ended.end["synchronous_executes"] == 2


PROFILE = """
device: Ascend910B
source: a test
default_precision: origin
precisions: {origin: {base_ms: 100, per_batch_ms: 50}}
"""


def test_keeps_the_interpreter_in_synchronous_runs_and_lets_it_go_while_it_waits_for_a_stream(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        model.put(floats(2, 8), floats(2, 1))
        assert session.synchronise() == 0
        ticks = 0
        stop = False

        def count() -> None:
            nonlocal ticks
            while not stop:
                ticks += 1
                time.sleep(0.005)

        thread = threading.Thread(target=count)
        thread.start()
        time.sleep(0.05)
        before = ticks
        start = time.monotonic()
        ok(acl.mdl.execute(model.id, model.input_set, model.output_set))
        assert time.monotonic() - start >= 0.2, "100 ms and 50 for each of two rows"
        assert ticks - before < 8
        before = ticks
        start = time.monotonic()
        assert model.start() == 0
        assert time.monotonic() - start < 0.2, "starting does not wait for the run"
        assert session.synchronise() == 0
        assert time.monotonic() - start >= 0.2
        assert ticks - before > 12
        stop = True
        thread.join()
        model.close()
        session.close()

    profile = tmp_path / "profile.yaml"
    profile.write_text(PROFILE)
    run_function(tmp_path, program, makers.write_static(tmp_path / "m.om"), profile=str(profile))
