"""Operations on the engine for arms: each whole, or taken back. The engine is played, the repository is real."""

from __future__ import annotations

import shutil
import threading
from types import TracebackType
from typing import ClassVar

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tests.repository.tiny import make_voice
from voxrepo.repository.arms import check_arm
from voxrepo.repository.check import CheckedVoice, take_inventory
from voxrepo.repository.layout import Layout
from voxrepo.repository.publish import publish_voice
from voxrepo.repository.voice import VoiceSpec
from voxrepo.rollout.plan import Versions
from voxrepo.supervisor import arm_work
from voxrepo.supervisor.arm_memory import MIB, Memory
from voxrepo.supervisor.arm_policy import BRIDGE_ARM
from voxrepo.supervisor.arm_work import ArmRun, ArmWork, Spoiled, Standing
from voxrepo_contract.errors import ConfigError, Internal, NotFound, Unavailable

A: Versions = {"text_frontend": 1, "acoustic": 1, "vocoder": 1}
B: Versions = {**A, "vocoder": 2}
LOADED = {stage: frozenset({1}) for stage in A}
NEEDED = {stage: {1} for stage in A}


class FakeControl:
    """An engine that serves what the files say at the moment of each load."""

    layout: ClassVar[Layout]
    calls: ClassVar[list[str]] = []
    refused: ClassVar[set[str]] = set()
    versions: ClassVar[dict[str, list[int]]] = {}
    pins: ClassVar[dict[str, dict[str, int]]] = {}
    stuck: ClassVar[set[str]] = set()

    def __init__(self, target: str, load_timeout_s: float) -> None:
        pass

    def __enter__(self) -> FakeControl:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def _config(self, model: str) -> ModelConfig:
        for folder in (self.layout.model_repository, self.layout.ensembles):
            file = folder / model / "config.pbtxt"
            if file.is_file():
                return text_format.Parse(file.read_text(encoding="utf-8"), ModelConfig())
        raise Unavailable(f"no {model}")

    def load(self, model: str, *, versions: list[int] | tuple[int, ...] = ()) -> None:
        self.calls.append(f"load {model}")
        config = self._config(model)
        listed = list(config.version_policy.specific.versions)
        if f"load {model} {listed}" in self.refused:
            raise Unavailable(f"{model} {listed} does not load")
        if config.platform == "ensemble":
            if model not in self.stuck:
                self.pins[model] = {step.model_name: step.model_version for step in config.ensemble_scheduling.step}
        else:
            self.versions[model] = listed
        assert set(versions) <= set(listed)

    def unload(self, model: str) -> None:
        self.calls.append(f"unload {model}")
        if self.pins.pop(model, None) is None and self.versions.pop(model, None) is None:
            raise NotFound(f"no {model}")

    def pinned_versions(self, ensemble: str) -> dict[str, int]:
        return self.pins[ensemble]

    def wait_unloaded(self, model: str, timeout_s: float) -> bool:
        return True

    def probe_voice(self, spec: VoiceSpec, model: str, text: str) -> None:
        assert spec.probe_text in text
        self.calls.append(f"probe {model}")
        if f"probe {model} {spec.versions['vocoder']}" in self.refused:
            raise Internal(f"{model} is silent")


@pytest.fixture
def voice(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> CheckedVoice:
    make_voice(layout, "one")
    folder = layout.model_repository / "one.vocoder"
    shutil.copytree(folder / "1", folder / "2")
    voice = take_inventory(layout).voices["one"]
    publish_voice(layout, voice, {}, 2)
    FakeControl.layout = layout
    for noted in (FakeControl.calls, FakeControl.refused, FakeControl.versions, FakeControl.pins, FakeControl.stuck):
        noted.clear()
    engine = FakeControl("", 1.0)
    for model in ("one.text_frontend", "one.acoustic", "one.vocoder", "one"):
        engine.load(model)
    FakeControl.calls.clear()
    monkeypatch.setattr(arm_work, "EngineControl", FakeControl)
    return voice


def work(layout: Layout, free_mib: int = 10_000, given_up: threading.Event | None = None) -> ArmWork:
    memory = Memory(lambda: free_mib * MIB, lambda model, version: 0)
    return ArmWork(layout, "unix:/engine", 2, 1.0, memory, (given_up or threading.Event()).is_set)


def standing(
    voice: CheckedVoice, arms: dict[str, Versions] | None = None, vocoders: tuple[int, ...] = (1,)
) -> Standing:
    versions = {**NEEDED, "vocoder": set(vocoders)}
    return Standing(voice, arms or {}, versions, {stage: frozenset(has) for stage, has in versions.items()})


def arms_on_disk(layout: Layout) -> set[str]:
    return {folder.name for folder in layout.ensembles.iterdir()} - {"one"}


def test_only_what_differs_is_loaded_and_the_arm_speaks(layout: Layout, voice: CheckedVoice) -> None:
    checked = work(layout).load_arm(standing(voice), "new", B)
    assert checked.versions == B
    assert FakeControl.calls == ["load one.vocoder", "load one.new", "probe one.new", "probe one.new"]
    assert FakeControl.versions["one.vocoder"] == [1, 2]
    assert FakeControl.pins["one.new"]["one.vocoder"] == 2
    assert FakeControl.pins["one"]["one.vocoder"] == 1


def test_the_server_has_an_arm_of_its_own_for_a_move(layout: Layout, voice: CheckedVoice) -> None:
    assert work(layout).load_arm(standing(voice), BRIDGE_ARM, B).name == "one.stable"
    assert FakeControl.pins["one.stable"]["one.vocoder"] == 2


@pytest.mark.parametrize("fault", ["load one.vocoder [1, 2]", "probe one.new 2"])
def test_nothing_is_left_of_an_arm_that_fails(layout: Layout, voice: CheckedVoice, fault: str) -> None:
    FakeControl.refused.add(fault)
    with pytest.raises((Unavailable, Internal)):
        work(layout).load_arm(standing(voice), "new", B)
    assert FakeControl.versions["one.vocoder"] == [1]
    assert set(FakeControl.pins) == {"one"}
    assert arms_on_disk(layout) == set()


def test_a_load_that_did_nothing_is_noticed(layout: Layout, voice: CheckedVoice) -> None:
    FakeControl.pins["one.new"] = {"one.text_frontend": 1, "one.acoustic": 1, "one.vocoder": 1}
    FakeControl.stuck.add("one.new")
    with pytest.raises(Unavailable, match="with vocoder version 1 and not 2 after a load"):
        work(layout).load_arm(standing(voice), "new", B)


def test_files_are_checked_and_room_is_made_sure_of_before_anything_changes(
    layout: Layout, voice: CheckedVoice
) -> None:
    with pytest.raises(Unavailable, match="MiB are left"):
        work(layout, free_mib=1).load_arm(standing(voice), "new", B)
    with pytest.raises(ConfigError, match="missing"):
        work(layout).load_arm(standing(voice), "new", {**A, "vocoder": 7})
    (layout.version_dir("one.vocoder", 2) / "generator.onnx").write_bytes(b"changed")
    with pytest.raises(ConfigError, match="sha256"):
        work(layout).load_arm(standing(voice), "new", B)
    assert FakeControl.calls == []
    assert arms_on_disk(layout) == set()


def test_a_release_keeps_what_others_need(layout: Layout, voice: CheckedVoice) -> None:
    work(layout).load_arm(standing(voice), "new", B)
    FakeControl.calls.clear()
    kept = Standing(voice, {}, {**NEEDED, "vocoder": {1, 2}}, {**LOADED, "vocoder": frozenset({1, 2})})
    work(layout).release(kept, "new")
    assert FakeControl.calls == ["unload one.new"]
    assert arms_on_disk(layout) == set()
    work(layout).release(Standing(voice, {}, NEEDED, {**LOADED, "vocoder": frozenset({1, 2})}), None)
    assert FakeControl.versions["one.vocoder"] == [1]


def test_a_swap_pins_versions_that_are_loaded(layout: Layout, voice: CheckedVoice) -> None:
    work(layout).load_arm(standing(voice), "new", B)
    FakeControl.calls.clear()
    moved = check_arm(layout, voice, "new", B).as_voice()
    work(layout).swap(standing(voice, {"new": B}, (1, 2)), moved)
    assert FakeControl.calls == ["load one", "probe one", "probe one"]
    assert FakeControl.pins["one"]["one.vocoder"] == 2
    assert FakeControl.versions["one.vocoder"] == [1, 2]


def test_a_swap_that_fails_is_taken_back_and_said_if_it_cannot_be(layout: Layout, voice: CheckedVoice) -> None:
    work(layout).load_arm(standing(voice), "new", B)
    moved = check_arm(layout, voice, "new", B).as_voice()
    FakeControl.refused.add("probe one 2")
    with pytest.raises(Internal, match="silent"):
        work(layout).swap(standing(voice, {"new": B}, (1, 2)), moved)
    assert FakeControl.pins["one"]["one.vocoder"] == 1
    FakeControl.refused.add("probe one 1")
    with pytest.raises(Spoiled, match="neither"):
        work(layout).swap(standing(voice, {"new": B}, (1, 2)), moved)


def test_an_exchange_unloads_first_and_goes_back_if_need_be(layout: Layout, voice: CheckedVoice) -> None:
    FakeControl.refused.add("load one.vocoder [2]")
    with pytest.raises(Unavailable, match="does not load"):
        work(layout).replace(standing(voice), B)
    assert (FakeControl.versions["one.vocoder"], FakeControl.pins["one"]["one.vocoder"]) == ([1], 1)
    FakeControl.refused.clear()
    FakeControl.calls.clear()
    assert work(layout).replace(standing(voice), B).spec.versions == B
    assert FakeControl.calls[:2] == ["unload one", "unload one.vocoder"]
    assert (FakeControl.versions["one.vocoder"], FakeControl.pins["one"]["one.vocoder"]) == ([2], 2)


def test_nothing_is_done_to_the_next_engine(layout: Layout, voice: CheckedVoice) -> None:
    given_up = threading.Event()
    given_up.set()
    with pytest.raises(Unavailable, match="ended"):
        work(layout, given_up=given_up).load_arm(standing(voice), "new", B)
    assert FakeControl.calls == []


def test_a_run_tells_its_result_or_why_there_is_none() -> None:
    def fail(error: Exception) -> object:
        raise error

    runs = {
        "done": ArmRun("a", lambda: 7),
        "refused": ArmRun("b", lambda: fail(Unavailable("no"))),
        "spoiled": ArmRun("c", lambda: fail(Spoiled("neither"))),
        "fault": ArmRun("d", lambda: fail(ZeroDivisionError())),
    }
    for run in runs.values():
        run.join(10)
        assert run.is_done
    assert (runs["done"].result, runs["done"].problem) == (7, None)
    assert (runs["refused"].problem, runs["refused"].is_spoiled) == ("no", False)
    assert (runs["spoiled"].problem, runs["spoiled"].is_spoiled) == ("neither", True)
    assert runs["fault"].problem == "ZeroDivisionError"
