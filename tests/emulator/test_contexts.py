"""Contexts of threads, streams of contexts, forks (points 4 and 19)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.emulator.makers import run_function, write_static

if TYPE_CHECKING:
    import os
    import threading

    import acl

    from tests.emulator.session import Model, Session, ok


def test_gives_each_thread_its_own_current_context(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        seen: list[object] = []

        def other() -> None:
            seen.extend([acl.rt.malloc(64, 0), model.start(), acl.rt.get_context(), acl.rt.get_mem_info(1)])
            ok(acl.rt.set_context(session.context))
            seen.append(acl.rt.get_context())

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert seen == [(0, 107002), 107002, (0, 107002), (0, 0, 107002), (session.context, 0)]
        model.close()
        session.close()

    ended = run_function(tmp_path, program, write_static(tmp_path / "m.om"))
    assert (ended.violations, ended.leaks) == ([], [])


def test_refuses_a_stream_or_model_of_another_context(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        second = ok(acl.rt.create_context(0))
        assert acl.rt.synchronize_stream(session.stream) == 107003
        assert acl.rt.destroy_stream(session.stream) == 107003
        own = ok(acl.rt.create_stream())
        assert acl.mdl.execute_async(model.id, model.input_set, model.output_set, session.stream) == 107003
        assert acl.mdl.execute_async(model.id, model.input_set, model.output_set, own) == 107004
        assert acl.mdl.unload(model.id) == 107004
        ok(acl.rt.destroy_stream(own))
        ok(acl.rt.destroy_context(second))
        assert acl.rt.malloc(64, 0) == (0, 107002)
        ok(acl.rt.set_context(session.context))
        model.close()
        session.close()

    ended = run_function(tmp_path, program, write_static(tmp_path / "m.om"))
    assert (ended.violations, ended.leaks) == ([], [])


def test_keeps_the_default_context_to_reset_device(tmp_path: Path) -> None:
    def program() -> None:
        ok(acl.init())
        ok(acl.rt.set_device(0))
        default = ok(acl.rt.get_context())
        assert acl.rt.destroy_context(default) != 0
        assert acl.rt.set_context(0) == 100000
        assert acl.rt.destroy_context(0) == 100000
        ok(acl.rt.set_device(0))
        assert acl.rt.get_context() == (default, 0)
        ok(acl.rt.reset_device(0))
        assert acl.rt.get_context() == (default, 0)
        ok(acl.rt.reset_device(0))
        assert acl.rt.get_context() == (0, 107002)
        assert acl.rt.reset_device(0) == 507007
        assert acl.rt.set_device(1) == 107001
        assert acl.rt.set_context(default) == 107017

    ended = run_function(tmp_path, program)
    assert len(ended.violations) == 2
    assert "ended by reset_device" in ended.violations[0]
    assert "released already" in ended.violations[1]


def test_shares_the_default_context_between_threads_that_set_the_device(tmp_path: Path) -> None:
    def program() -> None:
        ok(acl.init())
        ok(acl.rt.set_device(0))
        seen: list[int] = []

        def other() -> None:
            ok(acl.rt.set_device(0))
            seen.append(ok(acl.rt.get_context()))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert seen == [ok(acl.rt.get_context())]
        assert acl.rt.reset_device_force(0) == 0
        assert acl.rt.reset_device(0) == 507007

    assert run_function(tmp_path, program).violations == []


def test_records_contexts_and_streams_left_when_their_owner_ends(tmp_path: Path) -> None:
    def program() -> None:
        session = Session()
        ok(acl.rt.destroy_context(session.context))
        ok(acl.rt.set_device(0))
        ok(acl.rt.create_context(0))
        ok(acl.rt.reset_device(0))
        ok(acl.rt.reset_device(0))

    violations = run_function(tmp_path, program).violations
    assert len(violations) == 2
    assert "stream made at" in violations[0]
    assert "context made at" in violations[1]


def test_refuses_every_call_in_a_forked_child_and_reports_it_there(tmp_path: Path) -> None:
    def program() -> None:
        session = Session()
        child = os.fork()
        if child == 0:
            os._exit(0 if acl.rt.malloc(64, 0) == (0, 507033) and acl.rt.set_device(0) == 507033 else 1)
        assert os.waitpid(child, 0)[1] == 0
        session.close()

    ended = run_function(tmp_path, program)
    assert len(ended.violations) == 1
    assert "forked child" in ended.violations[0]
    assert ended.end["violations"] == 0, "the parent did nothing wrong"


def test_lets_a_forked_child_begin_if_its_parent_did_not(tmp_path: Path) -> None:
    def program() -> None:
        child = os.fork()
        if child == 0:
            Session().close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        Session().close()

    ended = run_function(tmp_path, program)
    assert (ended.violations, ended.leaks) == ([], [])
