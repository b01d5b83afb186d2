"""Models for ranges of shapes (point 11)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.emulator import makers
from tests.emulator.makers import run_function

if TYPE_CHECKING:
    import acl
    import numpy as np

    from tests.emulator.session import Buffer, Model, Session, floats, ok


@pytest.mark.parametrize("unbounded", [True, False])
def test_runs_the_shapes_in_the_tensor_descs_and_makes_descs_for_the_outputs(tmp_path: Path, unbounded: bool) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path, unknown_bytes=4096)
        old = 0
        for batch, length in ((2, 8), (4, 64), (1, 5)):
            model.set_shape(0, batch, length)
            model.set_shape(1, batch, 1)
            x, scale = floats(batch, length), floats(batch, 1)
            assert model.run(x, scale) == 0
            assert model.output_shape() == [batch, length]
            assert np.array_equal(model.outputs[0].floats(batch, length), x * scale)
            new = acl.mdl.get_dataset_tensor_desc(model.output_set, 0)
            assert acl.get_tensor_desc_size(new) == batch * length * 4
            assert new != old
            old = new
        assert acl.mdl.get_cur_output_dims(model.desc, 0) == ({}, 200001)
        model.close()
        session.close()

    ended = run_function(tmp_path, program, makers.write_range(tmp_path / "m.om", unbounded=unbounded))
    assert (ended.violations, ended.leaks) == ([], [])


def test_records_a_run_without_tensor_descs(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        assert model.run(floats(2, 8), floats(2, 1)) == 500002
        model.set_shape(0, 2, -1)
        model.set_shape(1, 2, 1)
        assert model.run(floats(2, 8), floats(2, 1)) == 500002
        assert session.synchronise() == 0, "the copies are queued still"
        model.close()
        session.close()

    ended = run_function(tmp_path, program, makers.write_range(tmp_path / "m.om"))
    assert ["no tensor desc was set" in ended.violations[0], "size of -1" in ended.violations[1]] == [True, True]
    assert len(ended.violations) == 2


def test_refuses_shapes_of_another_rank_or_outside_the_range(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        model.set_shape(1, 2, 1)
        for dims in ((16,), (2, 65), (5, 8), (2, 8, 1)):
            model.set_shape(0, *dims)
            assert model.start() == 100000, dims
            assert "E13025" in (acl.get_recent_err_msg() or "")
        model.close()
        session.close()

    ended = run_function(tmp_path, program, makers.write_range(tmp_path / "m.om"))
    assert (ended.violations, ended.leaks) == ([], [])


def test_records_a_stale_desc_that_does_not_fit_the_bytes_copied_in(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        model.set_shape(0, 2, 8)
        model.set_shape(1, 2, 1)
        assert model.run(floats(2, 8), floats(2, 1)) == 0
        assert acl.control.violation_count() == 0
        assert model.run(floats(2, 9), floats(2, 1)) == 0, "runs at the old shape, as on hardware"
        model.close()
        session.close()

    violations = run_function(tmp_path, program, makers.write_range(tmp_path / "m.om")).violations
    assert len(violations) == 1
    assert "its tensor desc stands for 64 bytes, 72 were copied in" in violations[0]


def test_accepts_more_inputs_than_the_model_has_and_refuses_fewer(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        model.set_shape(0, 1, 4)
        model.set_shape(1, 1, 1)
        spare = Buffer(64)
        ok(acl.mdl.add_dataset_buffer(model.input_set, spare.handle))
        assert model.run(floats(1, 4), floats(1, 1)) == 0
        fewer = acl.mdl.create_dataset()
        ok(acl.mdl.add_dataset_buffer(fewer, model.inputs[0].handle))
        assert acl.mdl.execute_async(model.id, fewer, model.output_set, session.stream) == 100000
        ok(acl.mdl.destroy_dataset(fewer))
        model.close()
        spare.close()
        session.close()

    ended = run_function(tmp_path, program, makers.write_range(tmp_path / "m.om"))
    assert (ended.violations, ended.leaks) == ([], [])


def test_names_the_needed_size_when_an_output_is_too_small_and_stays_usable(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path, unknown_bytes=16)
        values = np.array([1, -1, 2, 3, 4, 5, -2, 6], dtype=np.float32)
        model.inputs[0].put(session.stream, values)
        model.set_shape(0, 8)
        assert acl.mdl.get_output_size_by_index(model.desc, 0) == 0, "0 stands for unknown"
        assert model.start() == 500002
        text = acl.get_recent_err_msg() or ""
        assert "E13031" in text
        assert "24 bytes" in text
        bigger = Buffer(24)
        ok(acl.update_data_buffer(model.outputs[0].handle, bigger.device, 24))
        assert model.start() == 0
        assert session.synchronise() == 0
        bigger.fetch(session.stream)
        assert session.synchronise() == 0
        assert bigger.floats(6).tolist() == [1, 2, 3, 4, 5, 6]
        assert model.output_shape() == [6]
        model.close()
        bigger.close()
        session.close()

    ended = run_function(tmp_path, program, makers.write_value_dependent(tmp_path / "m.om"))
    assert (ended.violations, ended.leaks) == ([], [])


def test_refuses_input_buffers_smaller_than_their_shape(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        model.set_shape(0, 4, 64)
        model.set_shape(1, 4, 1)
        ok(acl.update_data_buffer(model.inputs[0].handle, model.inputs[0].device, 512))
        assert model.start() == 500002
        assert "E13025" in (acl.get_recent_err_msg() or "")
        model.close()
        session.close()

    assert run_function(tmp_path, program, makers.write_range(tmp_path / "m.om")).violations == []


def test_allocates_outputs_without_an_address_in_synchronous_runs_only_and_charges_the_caller(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        output = model.outputs[0]
        model.inputs[0].put(session.stream, np.ones(8, dtype=np.float32))
        assert session.synchronise() == 0
        model.set_shape(0, 8)
        ok(acl.update_data_buffer(output.handle, 0, 0))
        assert model.start() == 100000
        ok(acl.mdl.execute(model.id, model.input_set, model.output_set))
        address = acl.get_data_buffer_addr(output.handle)
        assert address != 0
        assert acl.get_data_buffer_size_v2(output.handle) == 32
        ok(acl.rt.memcpy(output.host, 32, address, 32, 2))
        assert output.floats(8).tolist() == [1] * 8
        ok(acl.rt.free(address))
        ok(acl.update_data_buffer(output.handle, 0, 0))
        config = acl.mdl.create_exec_config_handle()
        ok(acl.mdl.set_exec_config_opt(config, 0, 1000))
        assert acl.mdl.execute_v2(model.id, model.input_set, model.output_set, session.stream, 0) == 100000
        ok(acl.mdl.execute_v2(model.id, model.input_set, model.output_set, session.stream, config))
        ok(acl.mdl.destroy_exec_config_handle(config))
        model.close()
        session.close()

    ended = run_function(tmp_path, program, makers.write_value_dependent(tmp_path / "m.om"))
    assert ended.violations == []
    assert [leak["release"] for leak in ended.leaks] == ["acl.rt.free"], "the second output was not freed"


def test_records_the_use_of_output_descs_of_an_earlier_run_and_their_destruction(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        model.set_shape(0, 2, 8)
        model.set_shape(1, 2, 1)
        assert model.run(floats(2, 8), floats(2, 1)) == 0
        old = acl.mdl.get_dataset_tensor_desc(model.output_set, 0)
        acl.destroy_tensor_desc(old)
        assert model.start() == 0
        acl.mdl.get_dataset_tensor_desc(model.output_set, 0)
        assert session.synchronise() == 0
        assert acl.get_tensor_desc_num_dims(old) == 0
        model.close()
        session.close()

    violations = run_function(tmp_path, program, makers.write_range(tmp_path / "m.om")).violations
    assert len(violations) == 3
    assert "belongs to its dataset" in violations[0]
    assert "earlier run" in violations[1]
    assert "released already" in violations[2]


def test_records_a_host_buffer_reused_before_the_wait(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        model.set_shape(0, 2, 8)
        model.set_shape(1, 2, 1)
        model.put(floats(2, 8), floats(2, 1))
        assert model.start() == 0
        model.inputs[0].view[:] = 0
        assert session.synchronise() == 0
        model.close()
        session.close()

    violations = run_function(tmp_path, program, makers.write_range(tmp_path / "m.om")).violations
    assert len(violations) == 1
    assert "host buffer was changed" in violations[0]
