from __future__ import annotations

from collections.abc import Iterator

import pytest

from voxrepo.supervisor import recycling
from voxrepo.supervisor.recycling import calls_on_page, wait_until_idle
from voxrepo_contract.errors import Unavailable

PAGE = """# HELP voxrepo_engine_calls Inference calls running in the engine.
# TYPE voxrepo_engine_calls gauge
voxrepo_engine_calls {}
voxrepo_engine_calls_other 7.0
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recycling, "CALM_S", 0.05)
    monkeypatch.setattr(recycling, "LOOK_INTERVAL_S", 0.01)


def pages(*calls: float) -> Iterator[str]:
    for number in calls:
        yield PAGE.format(number)
    while True:
        yield PAGE.format(calls[-1])


def test_reads_the_calls() -> None:
    assert calls_on_page(PAGE.format("3.0")) == 3
    assert calls_on_page('voxrepo_engine_calls{worker="1"} 2.0\nvoxrepo_engine_calls{worker="2"} 1.0\n') == 3


def test_a_page_without_them_is_refused() -> None:
    with pytest.raises(Unavailable, match="does not say"):
        calls_on_page("nv_x 1\n")


def test_waits_until_the_last_call_has_ended() -> None:
    source = pages(3, 2, 0)
    assert wait_until_idle("http://x", 5.0, read=lambda url: next(source))


def test_a_moment_without_calls_is_not_enough() -> None:
    source = pages(*[0, 0, 1] * 4, 1)
    assert not wait_until_idle("http://x", 0.4, read=lambda url: next(source))


def test_gives_up() -> None:
    source = pages(0)
    assert not wait_until_idle("http://x", 5.0, lambda: True, read=lambda url: next(source))


def test_an_edge_that_cannot_be_asked_is_not_idle() -> None:
    assert not wait_until_idle("http://127.0.0.1:1/metrics", 1.0)
