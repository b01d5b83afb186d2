from __future__ import annotations

import threading
import time

import pytest

from tests.repository.another_server import another_server, may_load
from voxrepo.repository.layout import Layout
from voxrepo.repository.publishing import publishing


def test_servers_of_a_root_publish_one_after_the_other(layout: Layout, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO")
    got: list[bool] = []

    def publish() -> None:
        with publishing(layout) as is_alone:
            got.append(is_alone)

    thread = threading.Thread(target=publish)
    with another_server(layout):
        thread.start()
        thread.join(0.3)
        assert got == []
        assert caplog.text.count("another server of this root is loading; waiting") == 1
    thread.join(10)
    assert got == [True]
    assert may_load(layout)


def test_a_server_waits_for_a_while_only_and_says_so(layout: Layout, caplog: pytest.LogCaptureFixture):
    with another_server(layout), publishing(layout, wait_s=0.1) as is_alone:
        assert not is_alone
    assert "another server of this root has been loading for 0.1 s; not waited for" in caplog.text
    assert may_load(layout)


def test_what_is_given_up_waits_no_more(layout: Layout):
    given_up = threading.Event()
    threading.Timer(0.2, given_up.set).start()
    began_s = time.monotonic()
    with another_server(layout), publishing(layout, given_up.is_set) as is_alone:
        assert not is_alone
    assert time.monotonic() - began_s < 5.0


def test_what_one_server_does_at_the_same_time_shares_its_lock_until_the_last_has_ended(layout: Layout):
    with publishing(layout) as first:
        with publishing(layout) as second:
            assert (first, second, may_load(layout)) == (True, True, False)
        assert not may_load(layout)
    assert may_load(layout)


def test_what_fails_leaves_the_lock_to_others(layout: Layout):
    with pytest.raises(ZeroDivisionError), publishing(layout):
        raise ZeroDivisionError
    assert may_load(layout)


def test_a_root_that_cannot_be_locked_is_used_all_the_same(layout: Layout, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO")
    layout.rollouts.parent.mkdir()
    layout.rollouts.write_text("no folder", encoding="utf-8")
    with publishing(layout) as is_alone:
        assert is_alone
    assert "cannot be locked" in caplog.text
