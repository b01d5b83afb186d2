"""What an error of torch_npu asks for; no torch is needed for it."""

from __future__ import annotations

import pytest
from om_backend.acl.codes import Phase
from om_backend.device.faults import Action
from om_backend.device.textcodes import acl_code
from om_backend.device.torch_npu import fault_of, first_line


@pytest.mark.parametrize(
    ("text", "action", "code"),
    [
        ("NPU function error: aclrtSynchronizeStream, error code is 507015", Action.RESTART, 507015),
        ("ACL stream synchronize failed, error code:507010", Action.OUT_OF_SERVICE, 507010),
        ("EZ9999: inner error", Action.RESTART, 0),
        ("The size of tensor a (100000) must match the size of tensor b (507015)", Action.RESTART, 0),
    ],
)
def test_an_error_of_an_npu(text: str, action: Action, code: int):
    fault = fault_of(RuntimeError(text), Phase.RUN, on_npu=True)
    assert (fault.action, fault.code) == (action, code)


def test_an_error_of_a_cpu_is_of_the_request():
    fault = fault_of(RuntimeError("mat1 and mat2, error code is 507015"), Phase.RUN, on_npu=False)
    assert (fault.action, fault.code) == (Action.REQUEST, 0)


def test_an_error_at_the_start_is_a_refusal():
    assert fault_of(RuntimeError("no driver"), Phase.OPEN, on_npu=True).action is Action.REFUSE


def test_the_telling_line_is_found():
    text = "The following operation failed.\nTraceback of TorchScript:\n  x @ y\nRuntimeError: shapes differ\n"
    assert first_line(RuntimeError(text)) == "RuntimeError: shapes differ"
    assert first_line(RuntimeError("plain\nmore")) == "plain"
    assert first_line(RuntimeError("")) == "RuntimeError"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("ret:507011", 507011),
        ("ret[145013]", 145013),
        ("result = 107002", 107002),
        ("return code 500002,", 500002),
        ("errcode: 5070110", 0),
        ("ret:999999", 0),
        ("bytes 507011", 0),
    ],
)
def test_codes_are_told_from_other_numbers(text: str, code: int):
    assert acl_code(text) == code
