from __future__ import annotations

import pytest
from om_backend.acl.codes import Phase
from om_backend.acl.texts import needed_output_bytes, refine, text_codes
from om_backend.device.faults import Action


def test_codes_are_found_in_their_order():
    assert text_codes("EZ9999: Inner Error! E19999: x EE1001 [E13031] NOE12345") == [
        "EZ9999",
        "E19999",
        "EE1001",
        "E13031",
    ]


@pytest.mark.parametrize(
    ("text", "action", "says"),
    [
        (
            "EE1001: The argument is invalid. supported socVersion Ascend910B2, model Ascend910B",
            Action.REFUSE,
            "Ascend910B2",
        ),
        ("E10001: Value [Ascend310P3] for soc_version is not supported", Action.REFUSE, "--soc_version"),
        ("E19999: Inner Error! opp version of the model does not match", Action.REFUSE, "atc"),
        ("E13001: cannot open file", Action.REFUSE, "deploy"),
        ("EZ3003: no supported Ops kernel", Action.REFUSE, "operator"),
        ("E10001: Invalid om file", Action.REFUSE, "damaged"),
        ("EL0004: out of memory", Action.REFUSE, "memory"),
        ("E19999: Inner Error!", Action.REFUSE, "plog"),
    ],
)
def test_a_catch_all_code_at_load_is_read_by_its_text(text, action, says):
    found = refine(500002, text, Phase.LOAD)
    assert found is not None
    assert found.action is action
    assert says in found.advice


@pytest.mark.parametrize(
    ("code", "text", "action"),
    [
        (500002, "E13031: output buffer size 100 is less than 200", Action.REQUEST),
        (100000, "E13025: input shape is out of range", Action.REQUEST),
        (145000, "E13025: input number mismatch", Action.RELOAD),
        (500002, "EZ9999: aivec error", Action.RESTART),
        (500002, "EE1002: stream synchronize timeout", Action.RESTART),
        (500002, "EL0004: malloc failed", Action.RETRY),
        (500002, "E19999: Inner Error!", Action.RESTART),
        (500002, "EE9999: Inner Error!", Action.RESTART),
    ],
)
def test_a_catch_all_code_at_a_run_is_read_by_its_text(code, text, action):
    found = refine(code, text, Phase.RUN)
    assert found is not None
    assert found.action is action


@pytest.mark.parametrize("text", ["", "no code here", "EI0006: HCCL"])
def test_a_text_without_a_known_code_changes_nothing(text):
    assert refine(500002, text, Phase.RUN) is None
    assert refine(500002, text, Phase.LOAD) is None


@pytest.mark.parametrize(
    ("text", "given", "needed"),
    [
        ("E13031: Failed to check output 0: given size 1048576, required size 4194304", 1048576, 4194304),
        ("E13031: need size [4194304], but got [1048576] at index 1", 1048576, 4194304),
        ("E13031: too small", 1048576, None),
        ("E13025: needs 99999999", 1024, None),
    ],
)
def test_the_needed_size_is_the_number_above_the_given_one(text, given, needed):
    assert needed_output_bytes(text, given) == needed
