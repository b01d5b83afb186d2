from __future__ import annotations

import threading
from types import TracebackType
from typing import ClassVar

import pytest
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tests.harness import edit_yaml
from tests.repository.tiny import make_model, make_python_model, make_voice, voice_spec
from voxrepo.edge.table import EdgeTable
from voxrepo.repository.check import Inventory, Problem, take_inventory
from voxrepo.repository.layout import Layout
from voxrepo.repository.voice import Limits, VoiceSpec
from voxrepo.supervisor import loader
from voxrepo.supervisor.loader import (
    EngineEnded,
    edge_table,
    engine_calls,
    engine_pools,
    initial_statuses,
    load_everything,
)
from voxrepo.supervisor.state import ModelStatus
from voxrepo_contract.errors import Internal, Unavailable


class FakeEngine:
    """Loads what it is asked to, except what it is told to refuse."""

    refused: ClassVar[set[str]] = set()
    mute: ClassVar[set[str]] = set()
    loaded: ClassVar[list[str]] = []
    unloaded: ClassVar[list[str]] = []
    probed: ClassVar[list[str]] = []
    deadly: ClassVar[set[str]] = set()
    died: ClassVar[threading.Event] = threading.Event()
    handed: ClassVar[dict[str, ModelConfig | None]] = {}
    lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, target: str, load_timeout_s: float) -> None:
        assert target == "unix:/engine"
        assert load_timeout_s > 0

    def __enter__(self) -> FakeEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def load(self, model: str, config: ModelConfig | None = None) -> None:
        if model in self.deadly:
            self.died.set()
        if self.died.is_set():
            raise Unavailable("failed to connect")
        if model in self.refused:
            raise Unavailable(f"{model} does not want to")
        with self.lock:
            self.loaded.append(model)
            self.handed[model] = config

    def is_live(self) -> bool:
        return not self.died.is_set()

    def unload(self, model: str) -> None:
        with self.lock:
            self.unloaded.append(model)

    def probe_voice(self, spec: VoiceSpec) -> None:
        with self.lock:
            assert set(spec.stage_models().values()) | {spec.voice} <= set(self.loaded)
            self.probed.append(spec.voice)
        if spec.voice in self.mute:
            raise Internal(f"{spec.voice}: the probe text came back silent")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> type[FakeEngine]:
    for group in (FakeEngine.refused, FakeEngine.mute, FakeEngine.loaded, FakeEngine.unloaded, FakeEngine.probed):
        group.clear()
    FakeEngine.deadly.clear()
    FakeEngine.handed.clear()
    FakeEngine.died.clear()
    monkeypatch.setattr(loader, "EngineControl", FakeEngine)
    return FakeEngine


@pytest.fixture
def inventory(layout: Layout) -> Inventory:
    """Two voices, a model, and a voice that the check refused."""
    for name in ("one", "two", "bad"):
        make_voice(layout, name)
    layout.voice_file("bad").write_text("nonsense", encoding="utf-8")
    make_model(layout)
    return take_inventory(layout)


def states(statuses: dict[str, ModelStatus]) -> dict[str, str]:
    return {name: status.state for name, status in statuses.items()}


def test_everything_sound_is_loaded_and_every_voice_probed(engine: type[FakeEngine], inventory: Inventory):
    told: list[ModelStatus] = []
    statuses = load_everything("unix:/engine", inventory, told.append)
    assert states(statuses) == {"one": "ready", "two": "ready", "echo": "ready", "bad": "failed"}
    assert sorted(engine.probed) == ["one", "two"]
    assert sorted(engine.loaded) == sorted(
        [f"{voice}{part}" for voice in ("one", "two") for part in ("", ".text_frontend", ".acoustic", ".vocoder")]
        + ["echo"]
    )
    assert {status.name for status in told} == {"one", "two", "echo"}


def test_stages_are_loaded_before_their_voice(engine: type[FakeEngine], inventory: Inventory):
    load_everything("unix:/engine", inventory)
    for voice in ("one", "two"):
        stages = [engine.loaded.index(f"{voice}.{stage}") for stage in ("text_frontend", "acoustic", "vocoder")]
        assert max(stages) < engine.loaded.index(voice)


def test_a_stage_that_does_not_load_fails_its_own_voice_only(engine: type[FakeEngine], inventory: Inventory):
    engine.refused.add("one.acoustic")
    statuses = load_everything("unix:/engine", inventory)
    assert states(statuses) == {"one": "failed", "two": "ready", "echo": "ready", "bad": "failed"}
    assert statuses["one"].reason == "stage one.acoustic did not load: one.acoustic does not want to"
    assert "one" not in engine.loaded


def test_an_ensemble_that_does_not_load_fails_its_voice(engine: type[FakeEngine], inventory: Inventory):
    engine.refused.add("two")
    statuses = load_everything("unix:/engine", inventory)
    assert (statuses["two"].state, statuses["two"].reason) == ("failed", "two does not want to")
    assert "two" not in engine.probed


def test_a_voice_that_does_not_speak_is_not_offered(engine: type[FakeEngine], inventory: Inventory):
    engine.mute.add("two")
    statuses = load_everything("unix:/engine", inventory)
    assert statuses["two"].state == "failed"
    assert "silent" in statuses["two"].reason
    assert engine.unloaded == ["two"]
    assert statuses["one"].state == "ready"


def test_a_model_that_does_not_load_fails_alone(engine: type[FakeEngine], inventory: Inventory):
    engine.refused.add("echo")
    statuses = load_everything("unix:/engine", inventory)
    assert states(statuses) == {"one": "ready", "two": "ready", "echo": "failed", "bad": "failed"}


def test_what_the_check_refused_is_never_loaded(engine: type[FakeEngine], inventory: Inventory):
    statuses = load_everything("unix:/engine", inventory)
    assert "voice.yaml" in statuses["bad"].reason
    assert not any(name.startswith("bad") for name in engine.loaded)


def test_an_empty_repository_loads_nothing(engine: type[FakeEngine]):
    assert load_everything("unix:/engine", Inventory()) == {}


def test_before_loading_the_sound_is_loading_and_the_rest_has_failed(inventory: Inventory):
    statuses = initial_statuses(inventory)
    assert states(statuses) == {"one": "loading", "two": "loading", "echo": "loading", "bad": "failed"}
    assert statuses["one"].versions == {"text_frontend": 1, "acoustic": 1, "vocoder": 1}


def test_the_edge_is_told_of_ready_voices_and_of_what_failed(engine: type[FakeEngine], inventory: Inventory):
    engine.mute.add("two")
    table = edge_table(7, inventory, load_everything("unix:/engine", inventory).values(), ready=True, cores=2)
    assert (table.generation, table.ready, table.loading) == (7, True, [])
    assert set(table.voices) == {"one"}
    assert {problem.model for problem in table.problems} == {"two", "bad"}
    assert "two" in table.unserved_voices
    assert "one" not in table.unserved_voices
    assert EdgeTable.model_validate_json(table.model_dump_json()) == table


def test_voices_that_are_still_loading_are_not_offered(inventory: Inventory):
    table = edge_table(1, inventory, initial_statuses(inventory).values(), ready=False, cores=2)
    assert table.voices == {}
    assert not table.ready
    assert set(table.loading) == {"one", "two", "echo"}
    assert {"one", "two"} <= set(table.unserved_voices)
    assert "echo" not in table.unserved_voices
    assert {problem.model for problem in table.problems} == {"bad"}


def test_the_edge_gets_the_limits_of_the_voice(layout: Layout):
    make_voice(layout, "tiny", speakers=("joe", "ann"))
    inventory = take_inventory(layout)
    checked = inventory.voices["tiny"]
    spec = voice_spec(
        "tiny", speakers=["joe", "ann"], limits=Limits(max_text_chars=99, speed_min=0.5, speed_max=2.0).model_dump()
    )
    inventory.voices["tiny"] = type(checked)(spec, checked.stages)
    ready = ModelStatus(name="tiny", kind="voice", state="ready")
    entry = edge_table(1, inventory, [ready], ready=True, cores=2).voices["tiny"]
    assert (entry.max_text_chars, entry.speed_min, entry.speed_max) == (99, 0.5, 2.0)
    assert entry.speakers == ["joe", "ann"]
    assert entry.sample_rate_hz == spec.sample_rate_hz
    assert entry.versions == spec.versions


def test_what_the_check_refused_keeps_its_reason():
    inventory = Inventory(problems=[Problem("x", "model", "the file is missing")])
    (problem,) = edge_table(1, inventory, initial_statuses(inventory).values(), ready=True, cores=2).problems
    assert (problem.model, problem.reason) == ("x", "the file is missing")


def test_a_model_gets_calls_for_its_instances_and_the_next_batch(layout: Layout):
    make_voice(layout, "tiny")
    edit_yaml(
        layout.voice_file("tiny"),
        stages__acoustic__instances=3,
        stages__vocoder__instances=2,
        stages__vocoder__max_batch_size=4,
    )
    make_model(layout)
    calls = engine_calls(take_inventory(layout), cores=2)
    assert calls["tiny.text_frontend"] == 2
    assert calls["tiny.acoustic"] == 3, "whoever waits in the engine cannot be overtaken"
    assert calls["tiny.vocoder"] == 2 * 2 * 4
    assert calls["tiny"] == 2 + 3 + 16
    assert calls["echo"] == 2 * 4
    shared = engine_calls(take_inventory(layout), cores=2, edge_workers=2)
    assert shared == {**calls, "tiny.acoustic": 2 * 3, "tiny": 2 + 6 + 16}


def test_a_voice_on_a_cpu_has_a_place_more_than_cores_and_one_that_batches_has_no_pool(layout: Layout):
    for name in ("tiny", "small", "batching"):
        make_voice(layout, name)
    for stage in ("acoustic", "vocoder"):
        edit_yaml(layout.voice_file("tiny"), **{f"stages__{stage}__instances": 4})
        edit_yaml(layout.voice_file("small"), **{f"stages__{stage}__instances": 1})
    edit_yaml(layout.voice_file("batching"), stages__vocoder__max_batch_size=4)
    inventory = take_inventory(layout)
    assert engine_pools(inventory, cores=2) == {"tiny": 3, "small": 3}
    assert engine_pools(inventory, cores=64) == {"tiny": 9, "small": 3}
    assert engine_pools(inventory, cores=2, edge_workers=2) == {"tiny": 4, "small": 4}


def test_a_model_without_a_configuration_is_handed_its_own(engine: type[FakeEngine], layout: Layout):
    make_model(layout)
    folder = make_model(layout, "bare")
    (folder / "config.pbtxt").unlink()
    whole = make_python_model(layout, "code")
    assert whole.is_dir()
    inventory = take_inventory(layout)
    load_everything("unix:/engine", inventory)
    assert engine.handed["bare"] == inventory.models["bare"]
    # the engine reads this one from disk
    assert engine.handed["code"] is None


def test_voices_are_loaded_before_other_models_and_suspects_last(engine: type[FakeEngine], inventory: Inventory):
    load_everything("unix:/engine", inventory, suspects={"one"})
    assert engine.loaded.index("two") < engine.loaded.index("echo") < engine.loaded.index("one.acoustic")


def test_an_engine_that_ends_while_loading_names_what_it_was_loading(engine: type[FakeEngine], inventory: Inventory):
    engine.deadly.add("echo")
    told: list[ModelStatus] = []
    with pytest.raises(EngineEnded, match="the engine ended while it loaded echo") as caught:
        load_everything("unix:/engine", inventory, told.append, is_running=lambda: not engine.died.is_set())
    assert caught.value.names == ["echo"]
    # the voices were served until then, and nothing is said to be wrong with the model
    assert {status.name: status.state for status in told} == {"one": "ready", "two": "ready"}


def test_an_engine_that_only_refuses_has_not_ended(engine: type[FakeEngine], inventory: Inventory):
    engine.refused.add("echo")
    assert states(load_everything("unix:/engine", inventory, is_running=lambda: False))["echo"] == "failed"


def test_a_version_that_is_left_out_is_a_problem_of_its_own(engine: type[FakeEngine], layout: Layout):
    make_model(layout)
    inventory = take_inventory(layout)
    inventory.problems.append(Problem("echo", "model", "it is empty", 2))
    statuses = load_everything("unix:/engine", inventory)
    assert statuses["echo"].state == "ready"
    assert not statuses["echo"].is_whole
    assert statuses["echo"].complaints == ["echo version 2 is not served: it is empty"]
    assert statuses["echo"].served == [1]
    table = edge_table(1, inventory, statuses.values(), ready=True, cores=2, device="emulator")
    assert [(problem.model, problem.version) for problem in table.problems] == [("echo", "2")]
    assert table.device == "emulator"
