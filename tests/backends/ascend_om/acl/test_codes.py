"""The code table, walked against a second transcription of the reference's section 2."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from om_backend.acl.calls import Calls
from om_backend.acl.codes import CODES, Phase, code_of
from om_backend.device.faults import Action

# code -> action after a run. "Retry: no; fix the caller or rebuild the model's state" is RELOAD; the request's own
# fault is REQUEST; that of the graph's precision FAIL; what only another file or setting cures is REFUSE.
AFTER_RUN = {
    Action.REQUEST: [145012, 145013, 145021, 145022],
    Action.FAIL: [207003, 207016, 207017],
    Action.RETRY: [
        *(107002, 107003, 107004, 107005, 107019, 107037),
        *(200000, 207001, 207018, 207020, 245000, 245002, 507002, 507056, 507057),
    ],
    Action.REFUSE: [
        *(100002, 100003, 100006, 100012, 100013, 100014, 100015, 100016, 145002, 145006, 145009),
        *(145014, 145015, 145016, 200006, 207000, 300000, 507008, 507009),
        *(545001, 545002, 545003, 545004, 545005),
    ],
    Action.RELOAD: [
        *(100000, 100011, 100017, 100018, 100019, 100024, 100026, 107000, 107008, 107020),
        *(145000, 145003, 145011, 145020, 161001, 161002, 200001, 200003),
    ],
    Action.RESTART: [
        *(100001, 100037, 107001, 107017, 107022, 107023, 145001, 200002, 200005),
        *(207005, 207007, 207008, 207009, 207010, 207011, 207012, 361001, 561000, 561103),
        *(500000, 500001, 500002, 500003, 500004, 500005, 507000, 507001, 507007, 507011, 507013),
        *(507014, 507015, 507016, 507017, 507018, 507034, 507035, 507036, 507042, 507043, 507044, 507045),
        *(507046, 507047, 507048, 507049, 507050, 507051, 507052, 545009, 545601),
    ],
    Action.OUT_OF_SERVICE: [
        *(100039, 148049, 207004, 207006, 507010, 507033, 507053, 507054, 507055, 507899, 507900, 507901),
    ],
}
EXPECTED = {code: action for action, codes in AFTER_RUN.items() for code in codes}


def test_the_table_holds_just_the_codes_of_the_reference():
    assert set(CODES) == set(EXPECTED)


@pytest.mark.parametrize("code", sorted(EXPECTED))
def test_each_code_has_a_name_a_sentence_and_the_action_of_the_reference(code):
    entry = CODES[code]
    assert entry.name.startswith(("ACL_ERROR_", "ACLNN_ERR_"))
    assert len(entry.advice.split()) >= 6
    assert entry.action(Phase.RUN) is EXPECTED[code]


@pytest.mark.parametrize("code", sorted(EXPECTED))
def test_a_load_is_refused_unless_the_process_or_the_device_is_at_fault(code):
    at_load = CODES[code].action(Phase.LOAD)
    assert at_load in (Action.REFUSE, Action.RESTART, Action.OUT_OF_SERVICE)
    if EXPECTED[code] in (Action.REQUEST, Action.FAIL, Action.RETRY, Action.RELOAD, Action.REFUSE):
        assert at_load is Action.REFUSE


def test_a_catch_all_code_at_load_refuses_the_file_and_not_the_process():
    assert CODES[500002].action(Phase.LOAD) is Action.REFUSE


def test_a_device_that_cannot_be_opened_is_tried_again_slowly_but_one_lost_in_a_run_is_not():
    assert CODES[507033].action(Phase.OPEN) is Action.RESTART
    assert CODES[507033].action(Phase.RUN) is Action.OUT_OF_SERVICE


@pytest.mark.parametrize(
    ("code", "run", "load"),
    [
        (100099, Action.RELOAD, Action.REFUSE),
        (145555, Action.RELOAD, Action.REFUSE),
        (207099, Action.RETRY, Action.REFUSE),
        (300007, Action.RELOAD, Action.REFUSE),
        (507123, Action.RESTART, Action.RESTART),
        (545077, Action.RESTART, Action.REFUSE),
        (-1, Action.RESTART, Action.RESTART),
        (42, Action.RESTART, Action.RESTART),
    ],
)
def test_an_unknown_code_is_taken_by_its_range(code, run, load):
    entry = code_of(code)
    assert str(code) in entry.advice
    assert entry.action(Phase.RUN) is run
    assert entry.action(Phase.LOAD) is load


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("code", sorted(EXPECTED))
def test_a_failed_call_becomes_a_fault_with_code_name_text_and_action(code, phase):
    texts = ["plain text of the device"]
    module = SimpleNamespace(
        get_recent_err_msg=lambda: texts.pop() if texts else None,
        rt=SimpleNamespace(free=lambda _: code, get_mem_info=lambda _: (5, 9, 0)),
    )
    fault = Calls(module, phase).fault("rt.free", code)
    assert (fault.call, fault.code, fault.code_name) == ("acl.rt.free", code, CODES[code].name)
    assert fault.text == "plain text of the device"
    assert fault.action is CODES[code].action(phase)
    assert str(code) in str(fault)
    assert not texts, "the text is read, and thereby cleared, at once"


def test_out_of_memory_is_told_with_what_is_free():
    module = SimpleNamespace(
        get_recent_err_msg=lambda: None, rt=SimpleNamespace(get_mem_info=lambda kind: (123, 456, 0))
    )
    assert "123 of 456 bytes are free" in Calls(module, Phase.RUN).fault("rt.malloc", 207001).advice
