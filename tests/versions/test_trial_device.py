"""What a trial runs on: refused before an engine starts, where what a graph needs is not there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from voxrepo.repository.arms import CheckedArm
from voxrepo.repository.check import check_voice
from voxrepo.repository.layout import Layout
from voxrepo.supervisor.device import Asked, DeviceChoice
from voxrepo.versions.trial_device import device_for
from voxrepo_contract.errors import ConfigError

NO_NPU = "there is no NPU here (no /dev/davinci0 or the like); graphs that ask for an NPU are refused"


def there_is(has_npu: bool):
    def choose(asked: Asked, *, worker_python: Path | None = None) -> DeviceChoice:
        if asked == "auto":
            asked = "npu" if has_npu else "cpu"
        return DeviceChoice(asked, NO_NPU if asked == "cpu" else "", Path("python"))

    return choose


def never(asked: Asked, **_: object) -> DeviceChoice:
    raise AssertionError("no device was to be looked for")


def arm_of(layout: Layout, vocoder: int = 2) -> CheckedArm:
    voice = check_voice(layout, "tiny")
    return CheckedArm(voice, "candidate", {**voice.spec.versions, "vocoder": vocoder}, dict(voice.stages))


def compiled(layout: Layout, head: bytes, version: int = 2) -> CheckedArm:
    """An arm whose vocoder is a file of this kind for an NPU."""
    arm = arm_of(layout)
    stage = arm.stages["vocoder"]
    graph = stage.graphs["generator"].model_copy(update={"file": "generator.om", "device": "npu"})
    folder = layout.version_dir("tiny.vocoder", version)
    folder.mkdir(exist_ok=True)
    (folder / "generator.om").write_bytes(head.ljust(600, b"\0"))
    made = stage.model_copy(update={"graphs": {"generator": graph}})
    if version == 2:
        return replace(arm, stages={**arm.stages, "vocoder": made})
    return replace(arm, voice=replace(arm.voice, stages={**arm.voice.stages, "vocoder": made}))


def test_no_npu_is_looked_for_where_no_graph_needs_one(layout: Layout):
    assert device_for(layout, arm_of(layout), "auto", choose=never).device == "cpu"


@pytest.mark.parametrize(
    ("head", "asked", "has_npu", "expected"),
    [
        (b"IMOD", "auto", False, r"needs an NPU to be tried on, and there is no NPU here .*on the machine with"),
        (b"IMOD", "cpu", True, r"needs an NPU to be tried on, and --device cpu leaves"),
        (b"IMOD", "emulator", False, r"compiled for a real NPU, and the emulator runs emulated OMs only"),
        (b"VOXEMUOM", "auto", False, r"is an emulated OM.* --device emulator"),
        (b"VOXEMUOM", "auto", True, r"is an emulated OM.* --device emulator"),
        (b"VOXEMUOM", "cpu", True, r"is an emulated OM.* --device emulator"),
    ],
)  # fmt: skip
def test_a_graph_whose_device_is_not_there_is_refused_with_the_way_out(
    layout: Layout, head: bytes, asked: Asked, has_npu: bool, expected: str
):
    with pytest.raises(ConfigError, match=rf"^tiny.vocoder version 2 graph 'generator' .*{expected}.*--no-smoke"):
        device_for(layout, compiled(layout, head), asked, choose=there_is(has_npu))


@pytest.mark.parametrize(
    ("head", "asked", "device"),
    [(b"IMOD", "auto", "npu"), (b"IMOD", "npu", "npu"), (b"VOXEMUOM", "emulator", "emulator")],
)
def test_the_device_that_a_graph_needs_is_taken(layout: Layout, head: bytes, asked: Asked, device: str):
    assert device_for(layout, compiled(layout, head), asked, choose=there_is(True)).device == device


def test_what_the_voice_has_now_must_run_too(layout: Layout):
    with pytest.raises(ConfigError, match=r"^tiny.vocoder version 1, which the voice has now: graph 'generator'"):
        device_for(layout, compiled(layout, b"IMOD", version=1), "auto", choose=there_is(False))
