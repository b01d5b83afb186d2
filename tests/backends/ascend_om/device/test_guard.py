from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest
from om_backend.device.faults import Action, DeviceFault
from om_backend.device.guard import check_acl


def place(monkeypatch: pytest.MonkeyPatch, **attributes: object) -> None:
    module = types.ModuleType("acl")
    module.__dict__.update(attributes)
    monkeypatch.setitem(sys.modules, "acl", module)


def test_the_right_module_passes(monkeypatch: pytest.MonkeyPatch):
    place(monkeypatch)
    check_acl("npu")
    place(monkeypatch, EMULATOR=True)
    check_acl("emulator")


@pytest.mark.parametrize(
    ("mode", "attributes", "says"),
    [
        ("npu", {"EMULATOR": True, "__file__": "/e/acl/__init__.py"}, "/e/acl/__init__.py is the emulator; take its"),
        ("emulator", {"__file__": "/cann/acl.so"}, "/cann/acl.so is the real acl; check VOXREPO_EMULATOR_DIR"),
        ("emulator", {"EMULATOR": "yes"}, "is the real acl"),
    ],
)
def test_the_wrong_module_is_refused(
    monkeypatch: pytest.MonkeyPatch, mode: str, attributes: dict[str, object], says: str
):
    place(monkeypatch, **attributes)
    with pytest.raises(DeviceFault, match=says) as caught:
        check_acl(mode)
    assert caught.value.action is Action.REFUSE


@pytest.mark.parametrize(("mode", "says"), [("npu", "set_env.sh"), ("emulator", "VOXREPO_EMULATOR_DIR")])
def test_no_module_at_all_is_refused(monkeypatch: pytest.MonkeyPatch, mode: str, says: str):
    monkeypatch.setitem(sys.modules, "acl", None)
    with pytest.raises(DeviceFault, match=says):
        check_acl(mode)


def test_what_the_emulator_itself_lacks_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "acl.py").write_text("import module_that_is_not_here\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "acl", raising=False)
    with pytest.raises(DeviceFault, match="install module_that_is_not_here there, or set VOXREPO_WORKER_PYTHON"):
        check_acl("emulator")
