"""Runs of static models (points 12, 13)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.emulator import makers
from tests.emulator.makers import run_function

if TYPE_CHECKING:
    import acl
    import numpy as np

    from tests.emulator.session import Model, Session, floats, ok


def test_computes_and_is_silent_for_a_correct_program(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        for start in range(3):
            x, scale = floats(2, 8, start=start), floats(2, 1)
            assert model.run(x, scale) == 0
            assert np.array_equal(model.outputs[0].floats(2, 8), x * scale)
            assert np.allclose(model.outputs[1].floats(2), (x * scale).sum(1))
        model.close()
        session.close()

    ended = run_function(tmp_path, program, makers.write_static(tmp_path / "m.om", total=True))
    assert (ended.violations, ended.leaks, ended.errors) == ([], [], "")
    assert ended.end["executes"] == 3


def test_refuses_short_buffers_and_lets_those_within_the_slack_run_out_of_bounds(tmp_path: Path) -> None:
    def program(path: str, role: str) -> None:
        session = Session()
        model = Model(session, path)
        buffer = (model.inputs if role == "input" else model.outputs)[0]
        needed = buffer.size
        ok(acl.update_data_buffer(buffer.handle, buffer.device, needed - 65))
        assert model.run(floats(4, 32), floats(4, 1)) == 500002
        assert "E13025" in (acl.get_recent_err_msg() or "")
        assert acl.control.violation_count() == 0
        ok(acl.update_data_buffer(buffer.handle, buffer.device, needed - 64))
        assert model.run(floats(4, 32), floats(4, 1)) == 0
        assert acl.control.violation_count() == 1
        ok(acl.update_data_buffer(buffer.handle, buffer.device, needed))
        assert model.run(floats(4, 32), floats(4, 1)) == 0
        assert acl.control.violation_count() == 1
        model.close()
        session.close()

    for role in ("input", "output"):
        path = makers.write_static(tmp_path / "m.om", batch=4, length=32)
        ended = run_function(tmp_path / role, program, path, role)
        assert len(ended.violations) == 1
        assert "out of bounds" in ended.violations[0]


def test_refuses_a_wrong_number_of_buffers_and_null_ones(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        empty = acl.mdl.create_dataset()
        assert acl.mdl.execute_async(model.id, empty, model.output_set, session.stream) == 145000
        assert "E13025" in (acl.get_recent_err_msg() or "")
        assert acl.mdl.execute_async(model.id, model.input_set, empty, session.stream) == 145000
        assert acl.mdl.execute_async(model.id, 0, model.output_set, session.stream) == 100000
        assert acl.mdl.execute_async(77, model.input_set, model.output_set, session.stream) == 145003
        ok(acl.update_data_buffer(model.inputs[0].handle, 0, 64))
        assert model.start() == 100000
        ok(acl.mdl.destroy_dataset(empty))
        model.close()
        session.close()

    ended = run_function(tmp_path, program, makers.write_static(tmp_path / "m.om"))
    assert (ended.violations, ended.leaks) == ([], [])


def test_writes_no_more_than_the_real_bytes_and_poisons_what_earlier_runs_left(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        big = ok(acl.rt.malloc(256, 0))
        ok(acl.update_data_buffer(model.outputs[0].handle, big, 256))
        host = ok(acl.rt.malloc_host(256))
        view = acl.util.ptr_to_numpy(host, (64,), 11)
        ok(acl.rt.memset(big, 256, 1, 256))
        assert model.run(floats(2, 8), floats(2, 1)) == 0
        ok(acl.rt.memcpy(host, 256, big, 256, 2))
        assert np.array_equal(view[:16].reshape(2, 8), floats(2, 8) * floats(2, 1))
        assert np.isnan(view[16:]).all()
        model.close()
        ok(acl.rt.free(big))
        ok(acl.rt.free_host(host))
        session.close()

    run_function(tmp_path, program, makers.write_static(tmp_path / "m.om"))


def test_reads_poison_where_nothing_was_copied_in(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        assert model.run(floats(1, 8)) == 0
        assert np.isnan(model.outputs[0].floats(2, 8)).all()
        model.close()
        session.close()

    run_function(tmp_path, program, makers.write_static(tmp_path / "m.om"))


def test_records_memory_that_is_not_the_devices_and_fails_as_the_device_would(tmp_path: Path) -> None:
    def program(path: str, what: str) -> None:
        session = Session()
        model = Model(session, path)
        spare, roomy = ok(acl.rt.malloc(64, 0)), ok(acl.rt.malloc(256, 0))
        address = {"host": model.inputs[0].host, "unaligned": roomy + 4, "freed": spare}[what]
        ok(acl.rt.free(spare))
        ok(acl.update_data_buffer(model.inputs[0].handle, address, 64))
        assert model.start() == 0
        assert session.synchronise() == (0 if what == "unaligned" else 507015)

    for what, part in (("host", "as device memory"), ("unaligned", "not a multiple of 64"), ("freed", "freed already")):
        path = makers.write_static(tmp_path / "m.om", length=4)
        ended = run_function(tmp_path / what, program, path, what)
        assert part in ended.violations[0], (what, ended.violations)


def test_fails_at_synchronise_when_a_kernel_meets_a_bad_value(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        assert model.run(np.array([0, 1, 2, 9])) == 0
        assert model.outputs[0].floats(4, 2)[3].tolist() == [18, 19]
        model.put(np.array([0, 1, 2, 10]))
        assert model.start() == 0
        assert session.synchronise() == 507015
        assert "kernel failed" in (acl.get_recent_err_msg() or "")
        assert acl.rt.malloc(64, 0) == (0, 507015)

    ended = run_function(tmp_path, program, makers.write_gather(tmp_path / "m.om"))
    assert ended.violations == []


def test_gives_output_descs_to_a_static_model_only_if_an_input_desc_was_set(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        assert model.run(floats(2, 8), floats(2, 1)) == 0
        assert acl.mdl.get_dataset_tensor_desc(model.output_set, 0) == 0
        model.set_shape(0, 2, 8)
        assert model.run(floats(2, 8), floats(2, 1)) == 0
        assert model.output_shape() == [2, 8]
        model.close()
        session.close()

    ended = run_function(tmp_path, program, makers.write_static(tmp_path / "m.om"))
    assert (ended.violations, ended.leaks) == ([], [])
