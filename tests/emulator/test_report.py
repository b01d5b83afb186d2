"""What is reported, when, and by whom; settings; the guard against use by accident."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.emulator import makers
from tests.emulator.makers import EMULATOR_DIR, emulator_environment, read_report, run_function, run_program

if TYPE_CHECKING:
    import acl
    import numpy as np

    from tests.emulator.session import Model, Session, floats, ok


def test_reports_each_thing_never_released_with_its_creation_site(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        Model(session, path)
        acl.create_tensor_desc(0, [1], 2)
        ok(acl.rt.create_event())

    ended = run_function(tmp_path, program, makers.write_static(tmp_path / "m.om"))
    releases = sorted(leak["release"] for leak in ended.leaks)
    assert releases == sorted(
        [
            *["acl.rt.free", "acl.rt.free_host", "acl.destroy_data_buffer"] * 3,
            *["acl.mdl.destroy_dataset"] * 2,
            "acl.mdl.unload",
            "acl.rt.reset_device",
            "acl.finalize",
            "acl.mdl.destroy_desc",
            "acl.rt.destroy_stream",
            "acl.rt.destroy_context",
            "acl.destroy_tensor_desc",
            "acl.rt.destroy_event",
        ]
    )
    assert all("session.py:" in leak["site"] or "<string>:" in leak["site"] for leak in ended.leaks)
    assert ended.end["leaks"] == len(ended.leaks)


def test_writes_violations_at_once_so_that_they_outlive_a_killed_process(tmp_path: Path) -> None:
    source = "import acl, time; acl.rt.get_device_count(); print('ready', flush=True); time.sleep(60)"
    process = subprocess.Popen(
        [sys.executable, "-c", source], env=emulator_environment(tmp_path), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    kinds = [line["kind"] for line in read_report(tmp_path)]
    assert kinds == ["start", "violation"]


def test_gives_each_process_a_file_of_its_own_and_an_end_line(tmp_path: Path) -> None:
    for _ in range(2):
        run_program(tmp_path, "import acl; acl.init(); acl.finalize()")
    report = read_report(tmp_path)
    assert [line["kind"] for line in report] == ["start", "end", "start", "end"]
    assert report[-1]["violations"] == report[-1]["leaks"] == 0
    assert report[-1]["calls"] == {"acl.init": 1, "acl.finalize": 1}
    assert set(report[-1]["seconds"]) == {"acl.init", "acl.finalize"}


def test_reports_after_the_programs_own_exit_handlers(tmp_path: Path) -> None:
    program = """
        import atexit, acl
        acl.init()
        handle = acl.mdl.create_dataset()
        atexit.register(lambda: (acl.mdl.destroy_dataset(handle), acl.finalize()))
    """
    assert run_program(tmp_path, program).leaks == []


def test_prints_violations_when_no_directory_takes_the_report(tmp_path: Path) -> None:
    ended = run_program(tmp_path, "import acl; acl.rt.get_device_count()", report_dir=None)
    assert "called before acl.init" in ended.errors


def test_marks_reports_whose_outputs_were_not_computed(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        for batch in (1, 4, 4):
            ok(acl.mdl.set_dynamic_batch_size(model.id, model.input_set, 2, batch))
            assert model.run(floats(batch, 8), floats(batch, 1)) == 0
            result = model.outputs[0].floats(batch, 8)
            assert np.array_equal(result.reshape(-1), np.arange(batch * 8) % 16 / 16)
        model.close()
        session.close()

    ended = run_function(tmp_path, program, makers.write_batch_gears(tmp_path / "m.om"), compute=False)
    assert (ended.violations, ended.leaks) == ([], [])
    assert ended.end["compute"] is False


def test_is_refused_when_the_environment_does_not_ask_for_it(tmp_path: Path) -> None:
    real = tmp_path / "real"
    (real / "acl").mkdir(parents=True)
    (real / "acl" / "__init__.py").write_text("REAL = True\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VOXREPO_")}
    for path, part in (([EMULATOR_DIR], "VOXREPO_DEVICE=emulator"), ([EMULATOR_DIR, real], "the real one is at")):
        done = subprocess.run(
            [sys.executable, "-c", "import acl"],
            env={**environment, "PYTHONPATH": os.pathsep.join(map(str, path))},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert "ImportError" in done.stderr
        assert part in done.stderr


def test_says_that_it_is_the_emulator(tmp_path: Path) -> None:
    assert run_program(tmp_path, "import acl; print(acl.EMULATOR)").output == "True\n"


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"socc": "x"}, "'socc' is no setting"),
        ({"device_count": "1"}, "device_count: int expected"),
        ({"device_count": True}, "device_count: int expected"),
        ({"device_memory_bytes": -1}, "cannot be negative"),
        ({"run_mode": 2}, "run_mode"),
        ({"profile": "/nowhere.yaml"}, "profile cannot be read"),
        ({"report_dir": "/proc/self/reports"}, "report_dir: cannot be written"),
    ],
)
def test_refuses_wrong_settings_with_a_sentence(tmp_path: Path, settings: dict[str, Any], part: str) -> None:
    ended = run_program(tmp_path, "import acl", **settings)
    assert ended.returncode == 1
    assert "ConfigError" in ended.errors
    assert part in ended.errors


def test_serves_several_devices_with_memory_of_their_own(tmp_path: Path) -> None:
    program = """
        import acl
        acl.init()
        assert acl.rt.get_device_count() == (2, 0)
        for number in (0, 1):
            assert acl.rt.set_device(number) == 0
            assert acl.rt.get_mem_info(1) == (4096, 4096, 0)
            pointer, code = acl.rt.malloc(1000, 0)
            assert code == 0
            assert acl.rt.get_device() == (number, 0)
            assert acl.rt.free(pointer) == 0
        for number in (0, 1):
            assert acl.rt.reset_device(number) == 0
        acl.finalize()
    """
    ended = run_program(tmp_path, program, device_count=2, device_memory_bytes=4096)
    assert ended.returncode == 0, ended.errors
    assert (ended.violations, ended.leaks) == ([], [])


def test_stays_sound_under_many_threads(tmp_path: Path) -> None:
    program = """
        import sys, threading
        import numpy as np
        from tests.emulator.session import *
        session = Session()
        failures = []
        def work(number):
            try:
                ok(acl.rt.set_context(session.context))
                own = type("Own", (), {"stream": ok(acl.rt.create_stream()), "context": session.context})()
                own.synchronise = lambda ms=-1: acl.rt.synchronize_stream_with_timeout(own.stream, ms)
                model = Model(own, sys.argv[1])
                for turn in range(150):
                    x, scale = floats(2, 8, start=number), floats(2, 1, start=turn)
                    assert model.run(x, scale) == 0
                    assert np.array_equal(model.outputs[0].floats(2, 8), x * scale)
                model.close()
                ok(acl.rt.destroy_stream(own.stream))
            except BaseException as error:
                failures.append(repr(error))
        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert not failures, failures
        session.close()
    """
    started = time.monotonic()
    ended = run_program(tmp_path, program, makers.write_static(tmp_path / "m.om"))
    assert ended.returncode == 0, ended.errors
    assert (ended.violations, ended.leaks) == ([], [])
    assert ended.end["executes"] == 900
    assert time.monotonic() - started < 60
