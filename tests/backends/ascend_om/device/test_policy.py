from __future__ import annotations

from pathlib import Path

import pytest
from om_backend.device.faults import Action, DeviceFault
from om_backend.device.policy import RestartHistory, RestartPolicy, is_repeated, load_error, out_of_service, run_error

from voxrepo_contract.errors import ConfigError, Internal, InvalidArgument, Unavailable, VoxrepoError


def fault(action: Action, code: int = 507015) -> DeviceFault:
    return DeviceFault("acl.rt.synchronize", code, action, "a sentence", code_name="AICORE", text="/secret/path")


@pytest.mark.parametrize(
    ("action", "kind", "says"),
    [
        (Action.REQUEST, InvalidArgument, "a sentence"),
        (Action.FAIL, Internal, "a sentence (acl.rt.synchronize: 507015 AICORE)"),
        (Action.RETRY, Unavailable, "busy twice in a row: a sentence (acl.rt.synchronize: 507015 AICORE)"),
        (Action.REFUSE, Unavailable, "refused the run: a sentence (acl.rt.synchronize: 507015 AICORE)"),
        (Action.RELOAD, Unavailable, "is loaded again: a sentence (acl.rt.synchronize: 507015 AICORE)"),
        (Action.RESTART, Unavailable, "worker restarts: a sentence (acl.rt.synchronize: 507015 AICORE)"),
        (Action.OUT_OF_SERVICE, Unavailable, "out of service: a sentence (acl.rt.synchronize: 507015 AICORE)"),
    ],
)
def test_every_action_has_its_answer_to_a_request(action: Action, kind: type[VoxrepoError], says: str):
    error = run_error(fault(action))
    assert type(error) is kind
    assert error.message.endswith(says)
    assert "/secret" not in error.message, "the device's own text is for the log"


def test_the_table_of_actions_is_complete():
    assert {type(run_error(fault(action))) for action in Action} == {InvalidArgument, Internal, Unavailable}


@pytest.mark.parametrize("action", list(Action))
def test_a_refused_load_tells_the_operator_everything(action: Action):
    error = load_error(fault(action), Path("/models/m.om"))
    assert type(error) is (ConfigError if action in (Action.REFUSE, Action.REQUEST, Action.FAIL) else Unavailable)
    assert error.message == "/models/m.om: a sentence (acl.rt.synchronize: 507015 AICORE; /secret/path)"


def test_a_file_is_named_once():
    refusal = DeviceFault("load", 0, Action.REFUSE, "/models/m.om: is damaged")
    assert load_error(refusal, Path("/models/m.om")).message == "/models/m.om: is damaged (load)"


@pytest.mark.parametrize(
    ("action", "attempt", "seconds", "repeated"),
    [
        (Action.RESTART, 0, 0.1, True),
        (Action.RESTART, 1, 0.1, False),
        (Action.RESTART, 0, 30.0, False),
        (Action.RELOAD, 0, 0.1, True),
        (Action.RETRY, 0, 0.1, True),
        (Action.RETRY, 1, 0.1, False),
        (Action.REQUEST, 0, 0.1, False),
        (Action.FAIL, 0, 0.1, False),
        (Action.REFUSE, 0, 0.1, False),
        (Action.OUT_OF_SERVICE, 0, 0.1, False),
    ],
)
def test_a_run_is_repeated_once_and_only_if_that_can_help(action: Action, attempt: int, seconds: float, repeated: bool):
    assert is_repeated(fault(action), attempt, seconds, limit_s=8) is repeated


def test_a_second_refused_run_in_a_row_asks_for_a_restart():
    history = RestartHistory(RestartPolicy())
    assert [history.refused() for _ in range(4)] == [False, True, False, True]
    assert not history.refused()
    history.succeeded()
    assert not history.refused()


@pytest.mark.parametrize(("probe_s", "says"), [(60.0, "tried again every 60 s"), (None, "needs a look; restart the")])
def test_who_is_turned_away_is_told_whether_the_device_may_come_back(probe_s: float | None, says: str):
    sentence = out_of_service("too many restarts\n/secret/path", probe_s)
    assert says in sentence
    assert sentence.endswith("(too many restarts)")


def test_waits_double_up_to_half_a_minute():
    policy = RestartPolicy()
    assert [policy.delay_s(n) for n in range(1, 12)] == [0, 0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30]
    assert policy.delay_s(10_000) == 30


def test_a_good_run_resets_the_wait():
    history = RestartHistory(RestartPolicy())
    for now in range(4):
        assert history.attempt(now) == ""
    assert history.delay_s == 2
    history.succeeded()
    assert history.attempt(10) == ""
    assert history.delay_s == 0


def test_restarts_that_do_not_help_come_to_an_end():
    history = RestartHistory(RestartPolicy(max_in_a_row=3))
    assert [history.attempt(now * 1000) for now in range(4)] == ["", "", "", "3 restarts in a row without a good run"]


def test_many_restarts_in_a_short_time_come_to_an_end_even_between_good_runs():
    history = RestartHistory(RestartPolicy(max_in_window=5, window_s=600))
    for now in range(5):
        assert history.attempt(now) == ""
        history.succeeded()
    assert history.attempt(599) == "5 restarts within 10 minutes"
    assert history.is_frequent


def test_restarts_long_ago_are_forgotten():
    history = RestartHistory(RestartPolicy(max_in_window=2, window_s=60))
    for now in range(0, 1000, 40):
        assert history.attempt(now) == ""
        history.succeeded()
