"""Gears (point 10)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.emulator import makers
from tests.emulator.makers import run_function

if TYPE_CHECKING:
    import acl
    import numpy as np

    from tests.emulator.session import Model, Session, floats, ok


def test_runs_each_batch_gear_packed_from_the_start_and_poisons_the_rest(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        assert acl.mdl.get_num_inputs(model.desc) == 3
        assert acl.mdl.get_input_name_by_index(model.desc, 2) == "ascend_mbatch_shape_data"
        assert acl.mdl.get_input_index_by_name(model.desc, "ascend_mbatch_shape_data") == (2, 0)
        assert acl.mdl.get_input_size_by_index(model.desc, 2) >= 4
        assert acl.mdl.get_dynamic_batch(model.desc) == ({"batchCount": 3, "batch": [1, 2, 4]}, 0)
        assert acl.mdl.get_input_dynamic_gear_count(model.desc, -1) == (0, 0)
        for batch in (4, 1, 2):
            ok(acl.mdl.set_dynamic_batch_size(model.id, model.input_set, 2, batch))
            assert ok(acl.mdl.get_cur_output_dims(model.desc, 0))["dims"] == [batch, 8]
            x, scale = floats(batch, 8, start=batch), floats(batch, 1) + 1
            assert model.run(x, scale) == 0
            assert np.array_equal(model.outputs[0].floats(batch, 8), x * scale)
            rest = model.outputs[0].floats(4, 8)[batch:]
            assert np.isnan(rest).all(), "no byte of an earlier run is left"
        model.close()
        session.close()

    ended = run_function(tmp_path, program, makers.write_batch_gears(tmp_path / "m.om"))
    assert (ended.violations, ended.leaks) == ([], [])


def test_takes_dims_gears_in_the_order_of_the_converters_input_shape(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        count = ok(acl.mdl.get_input_dynamic_gear_count(model.desc, -1))
        gears = ok(acl.mdl.get_input_dynamic_dims(model.desc, -1, count))
        assert [gear["dims"] for gear in gears] == [[1, 1, 1, 8], [1, 1, 1, 16], [2, 1, 2, 16]], "scale comes first"
        assert gears[0]["dimCount"] == 4
        assert acl.mdl.get_input_dynamic_dims(model.desc, -1, 2)[1] == 100000
        assert acl.mdl.get_input_dynamic_dims(model.desc, -1, 5000) == (None, 100000)
        assert acl.mdl.get_dynamic_batch(model.desc)[0]["batchCount"] == 0
        assert acl.mdl.get_input_dims_range(model.desc, 0) == ({"rangeCount": 0, "range": []}, 0)

        def choose(*dims: int, index: int = 2) -> int:
            value = {"dimCount": len(dims), "dims": list(dims), "name": ""}
            code: int = acl.mdl.set_input_dynamic_dims(model.id, model.input_set, index, value)
            return code

        assert choose(1, 8, 1, 1) == 145012, "order of the model's inputs: a fixed size does not match"
        assert choose(1, 1, 8) == 145012
        assert choose(1, 1, 1, 9) == 145013
        assert "gear" in (acl.get_recent_err_msg() or "")
        assert choose(1, 1, 1, 8, index=1) == 100000
        assert acl.mdl.set_dynamic_batch_size(model.id, model.input_set, 2, 1) != 0
        assert choose(2, 1, 2, 16) == 0
        x = floats(2, 16)
        assert model.run(x, floats(2, 1)) == 0
        assert np.array_equal(model.outputs[0].floats(2, 16), x * floats(2, 1))
        model.close()
        session.close()

    path = makers.write_dims_gears(tmp_path / "m.om", input_order=("scale", "x"))
    ended = run_function(tmp_path, program, path)
    assert (ended.violations, ended.leaks) == ([], [])


def test_refuses_wrong_batches_and_a_missing_gear_buffer(tmp_path: Path) -> None:
    def program(path: str, static: str) -> None:
        session = Session()
        model = Model(session, path)
        assert acl.mdl.set_dynamic_batch_size(model.id, model.input_set, 2, 3) == 145013
        assert "[1, 2, 4]" in (acl.get_recent_err_msg() or "")
        assert acl.mdl.set_dynamic_batch_size(model.id, model.input_set, 2, 0) == 100000
        short = acl.mdl.create_dataset()
        for buffer in model.inputs[:2]:
            ok(acl.mdl.add_dataset_buffer(short, buffer.handle))
        assert acl.mdl.set_dynamic_batch_size(model.id, short, 2, 2) == 100000
        assert acl.mdl.execute_async(model.id, short, model.output_set, session.stream) == 145000
        gear = model.inputs[2]
        ok(acl.update_data_buffer(gear.handle, 0, 4))
        assert acl.mdl.set_dynamic_batch_size(model.id, model.input_set, 2, 2) == 145011
        ok(acl.update_data_buffer(gear.handle, gear.device, 2))
        assert acl.mdl.set_dynamic_batch_size(model.id, model.input_set, 2, 2) == 145012
        fixed = ok(acl.mdl.load_from_file(static))
        assert acl.mdl.set_dynamic_batch_size(fixed, model.input_set, 2, 2) == 100019
        ok(acl.mdl.unload(fixed))
        ok(acl.mdl.destroy_dataset(short))
        model.close()
        session.close()

    ended = run_function(
        tmp_path, program, makers.write_batch_gears(tmp_path / "m.om"), makers.write_static(tmp_path / "s.om")
    )
    assert (ended.violations, ended.leaks) == ([], [])


def test_runs_at_the_largest_gear_and_says_so_when_none_was_set(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        x, scale = floats(4, 8), floats(4, 1)
        assert model.run(x, scale) == 0
        assert np.array_equal(model.outputs[0].floats(4, 8), x * scale)
        model.close()
        session.close()

    ended = run_function(tmp_path, program, makers.write_batch_gears(tmp_path / "m.om"))
    assert len(ended.violations) == 1
    assert "no gear was set" in ended.violations[0]


def test_keeps_the_gear_by_dataset_and_records_a_change_under_a_queued_run(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        ok(acl.mdl.set_dynamic_batch_size(model.id, model.input_set, 2, 1))
        assert model.run(floats(1, 8), floats(1, 1)) == 0
        assert model.run(floats(1, 8), floats(1, 1)) == 0, "set once, valid until changed"
        assert acl.control.violation_count() == 0
        assert model.start() == 0
        ok(acl.mdl.set_dynamic_batch_size(model.id, model.input_set, 2, 2))
        assert session.synchronise() == 0
        model.close()
        session.close()

    violations = run_function(tmp_path, program, makers.write_batch_gears(tmp_path / "m.om")).violations
    assert "the gear is changed while a run" in violations[0]


def test_does_not_compare_sizes_of_geared_models_and_so_runs_out_of_bounds(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        ok(acl.mdl.set_dynamic_batch_size(model.id, model.input_set, 2, 4))
        ok(acl.update_data_buffer(model.outputs[0].handle, model.outputs[0].device, 8))
        assert model.run(floats(4, 8), floats(4, 1)) == 0
        model.close()
        session.close()

    violations = run_function(tmp_path, program, makers.write_batch_gears(tmp_path / "m.om")).violations
    assert len(violations) == 1
    assert "out of bounds" in violations[0]


def test_finds_the_output_dims_of_gears_that_the_file_does_not_give(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        assert [buffer.size for buffer in model.outputs] == [128, 16]
        ok(acl.mdl.set_dynamic_batch_size(model.id, model.input_set, 2, 2))
        assert ok(acl.mdl.get_cur_output_dims(model.desc, 1))["dims"] == [2]
        model.close()
        session.close()

    path = makers.write_batch_gears(tmp_path / "m.om", total=True, outputs_by_gear=())
    assert run_function(tmp_path, program, path).violations == []
