from __future__ import annotations

import threading
import time
from dataclasses import replace
from types import TracebackType
from typing import Any, ClassVar

import pytest
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tests.repository.another_server import another_server, may_load
from tests.repository.tiny import make_model, make_voice
from tests.supervisor.conftest import wait_until
from voxrepo.repository.check import Inventory, take_inventory
from voxrepo.repository.layout import Layout
from voxrepo.repository.publishing import publishing
from voxrepo.repository.voice import VoiceSpec
from voxrepo.supervisor import mending
from voxrepo.supervisor.mending import Deaths, MendingRun, dismiss, mend, plan_mending, watched_models
from voxrepo_contract.errors import Unavailable


class FakeControl:
    """Notes what it is asked to do."""

    calls: ClassVar[list[str]] = []
    refused: ClassVar[set[str]] = set()
    lock: ClassVar[threading.Lock] = threading.Lock()
    handed: ClassVar[dict[str, ModelConfig | None]] = {}

    def __init__(self, target: str, load_timeout_s: float = 0.0) -> None:
        assert target == "unix:/engine"

    def __enter__(self) -> FakeControl:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def _do(self, what: str) -> None:
        with self.lock:
            self.calls.append(what)
        if what in self.refused:
            raise Unavailable(f"no {what}")

    def load(self, model: str, config: ModelConfig | None = None) -> None:
        self.handed[model] = config
        self._do(f"load {model}")

    def unload(self, model: str) -> None:
        self._do(f"unload {model}")

    def probe_voice(self, spec: VoiceSpec, model: str | None = None) -> None:
        self._do(f"probe {model or spec.voice}")


@pytest.fixture
def control(monkeypatch: pytest.MonkeyPatch) -> FakeControl:
    FakeControl.calls.clear()
    FakeControl.refused.clear()
    FakeControl.handed.clear()
    monkeypatch.setattr(mending, "EngineControl", FakeControl)
    return FakeControl("unix:/engine")


def ensemble(name: str, *used: str) -> ModelConfig:
    config = ModelConfig(name=name, platform="ensemble")
    for model in used:
        config.ensemble_scheduling.step.add(model_name=model, model_version=-1)
    return config


@pytest.fixture
def inventory(layout: Layout) -> Inventory:
    """Two voices, a model, an ensemble of it and one of that ensemble and a voice's stage."""
    for name in ("one", "two"):
        make_voice(layout, name)
    make_model(layout)
    inventory = take_inventory(layout)
    inventory.models["outer"] = ensemble("outer", "inner", "one.vocoder")
    inventory.models["inner"] = ensemble("inner", "echo")
    return inventory


def test_stages_and_other_models_are_watched(inventory: Inventory) -> None:
    stages = {f"{voice}.{stage}" for voice in ("one", "two") for stage in ("text_frontend", "acoustic", "vocoder")}
    assert watched_models(inventory) == stages | {"echo", "inner", "outer"}


def test_a_stage_concerns_its_own_voice(inventory: Inventory) -> None:
    plan = plan_mending(["two.acoustic"], inventory)
    assert (plan.models, plan.ensembles) == (("two.acoustic",), ("two",))
    assert [spec.voice for spec in plan.voices] == ["two"]
    assert plan.subjects == {"two"}


def test_ensembles_over_ensembles_are_concerned_inner_first(inventory: Inventory) -> None:
    plan = plan_mending(["echo"], inventory)
    assert (plan.models, plan.ensembles) == (("echo",), ("inner", "outer"))
    assert plan.voices == ()
    assert plan.subjects == {"echo", "inner", "outer"}


def test_several_models_are_cured_together(inventory: Inventory) -> None:
    plan = plan_mending(["one.vocoder", "echo", "one.acoustic"], inventory)
    assert plan.models == ("echo", "one.acoustic", "one.vocoder")
    assert set(plan.ensembles) == {"one", "inner", "outer"}
    assert plan.ensembles.index("inner") < plan.ensembles.index("outer")
    assert plan.subjects == {"echo", "inner", "outer", "one"}


def test_an_unknown_model_is_nobody_s_business(inventory: Inventory) -> None:
    assert plan_mending(["callable"], inventory).subjects == set()


def test_a_model_without_a_configuration_on_disk_is_handed_its_own_again(
    control: FakeControl, layout: Layout, inventory: Inventory
) -> None:
    inventory.completed.add("echo")
    mend(control, plan_mending(["echo"], inventory))  # type: ignore[arg-type]
    assert control.handed["echo"] == inventory.models["echo"]
    assert control.handed["inner"] is None


def test_unloads_from_the_outside_in_and_loads_from_the_inside_out(control: FakeControl, inventory: Inventory) -> None:
    mend(control, plan_mending(["one.vocoder"], inventory))  # type: ignore[arg-type]
    assert set(control.calls[:2]) == {"unload one", "unload outer"}
    assert control.calls[2:4] == ["unload one.vocoder", "load one.vocoder"]
    assert set(control.calls[4:6]) == {"load one", "load outer"}
    assert control.calls[6:] == ["probe one"]


def test_voices_may_serve_before_they_are_tried_out(control: FakeControl, inventory: Inventory) -> None:
    calls_then: list[list[str]] = []
    plan = plan_mending(["one.vocoder"], inventory)
    mend(control, plan, lambda: calls_then.append(list(control.calls)))  # type: ignore[arg-type]
    assert control.calls == [*calls_then[0], "probe one"]


def finished(run: MendingRun) -> MendingRun:
    wait_until(lambda: run.is_done)
    return run


def test_a_cure_waits_for_the_edge_to_hold_requests(control: FakeControl, inventory: Inventory) -> None:
    held = threading.Event()
    run = MendingRun("unix:/engine", plan_mending(["one.vocoder"], inventory), held.is_set, 1.0)
    time.sleep(0.1)
    assert control.calls == []
    held.set()
    assert finished(run).problem is None
    assert control.calls


def test_a_cure_does_not_wait_for_ever_for_the_edge(
    control: FakeControl, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mending, "HOLD_WAIT_S", 0.05)
    assert finished(MendingRun("unix:/engine", plan_mending(["echo"], inventory), lambda: False, 1.0)).problem is None


@pytest.mark.parametrize("step", ["unload one", "load one.vocoder", "load one", "probe one"])
def test_a_cure_that_fails_says_why(control: FakeControl, inventory: Inventory, step: str) -> None:
    control.refused.add(step)
    run = finished(MendingRun("unix:/engine", plan_mending(["one.vocoder"], inventory), lambda: True, 1.0))
    assert run.problem == f"no {step}"
    assert run.is_loaded == step.startswith("probe")


def test_what_nobody_foresaw_is_a_failed_cure_too(
    control: FakeControl, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr(mending, "mend", broken)
    run = finished(MendingRun("unix:/engine", plan_mending(["echo"], inventory), lambda: True, 1.0))
    assert run.problem == "odd"


def test_what_is_given_up_is_unloaded_as_far_as_the_engine_lets_it(control: FakeControl) -> None:
    control.refused.add("unload a")
    dismiss("unix:/engine", ["a", "b"]).join(5)
    assert control.calls == ["unload a", "unload b"]


def test_three_deaths_in_a_minute_are_hopeless() -> None:
    deaths = Deaths(most=3, within_s=60.0)
    assert deaths.count(["a"], 0.0) == set()
    assert deaths.count(["a", "b"], 30.0) == set()
    assert deaths.count(["a"], 59.0) == {"a"}


def test_deaths_that_are_far_apart_are_not() -> None:
    deaths = Deaths(most=3, within_s=60.0)
    assert all(deaths.count(["a"], 31.0 * number) == set() for number in range(20))


def test_instances_that_die_together_are_one_death() -> None:
    deaths = Deaths(most=3, within_s=60.0)
    assert deaths.count(["a"] * 8, 0.0) == set()


def test_arms_are_back_before_their_voice_serves_and_one_that_is_not_costs_it_nothing(
    control: FakeControl, layout: Layout
) -> None:
    make_voice(layout, "one")
    inventory = take_inventory(layout)
    spec = inventory.voices["one"].spec
    arms = {"one.good": spec, "one.bad": spec, "one.silent": spec}
    control.refused.update(("load one.bad", "probe one.silent"))
    told: list[tuple[list[str], dict[str, str]]] = []
    lost: dict[str, str] = {}
    mend(
        control,  # type: ignore[arg-type]
        replace(plan_mending({"one.vocoder"}, inventory), arms=arms),
        lambda: told.append((list(control.calls), dict(lost))),
        lost.__setitem__,
    )
    loads = [
        *("unload one.good", "unload one.bad", "unload one.silent", "unload one", "unload one.vocoder"),
        *("load one.vocoder", "load one", "load one.good", "load one.bad", "load one.silent"),
    ]
    assert told == [(loads, {"one.bad": "no load one.bad"})]
    assert control.calls == [*loads, "probe one", "probe one.good", "probe one.silent"]
    assert lost == {"one.bad": "no load one.bad", "one.silent": "no probe one.silent"}


def test_a_cure_tells_of_each_arm_that_it_lost_once(control: FakeControl, inventory: Inventory) -> None:
    arms = {"one.bad": inventory.voices["one"].spec}
    control.refused.add("load one.bad")
    plan = replace(plan_mending(["one.vocoder"], inventory), arms=arms)
    run = finished(MendingRun("unix:/engine", plan, lambda: True, 1.0))
    assert (run.problem, run.take_lost(), run.take_lost()) == (None, {"one.bad": "no load one.bad"}, {})


def cure(layout: Layout, inventory: Inventory, *models: str, **options: Any) -> MendingRun:
    """A cure on a root that other servers use, too."""
    return MendingRun("unix:/engine", plan_mending(models, inventory), lambda: True, 1.0, layout=layout, **options)


def test_a_cure_lets_another_server_load_first_and_keeps_it_from_loading_until_it_has_loaded_itself(
    control: FakeControl, layout: Layout, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_another: dict[str, bool] = {}

    def note(self: FakeControl, what: str) -> None:
        may_another[what] = may_load(layout)

    monkeypatch.setattr(FakeControl, "_do", note)
    with another_server(layout):
        run = cure(layout, inventory, "one.vocoder", publish=lambda: note(control, "publish"))
        time.sleep(0.3)
        assert may_another == {}
    assert finished(run).problem is None
    assert [what for what, may in may_another.items() if may] == ["probe one"]
    assert {"publish", "unload one", "load one.vocoder", "load one"} < set(may_another)


def test_a_cure_waits_for_another_server_for_a_while_only(
    control: FakeControl, layout: Layout, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mending, "RECOVERY_WAIT_S", 0.1)
    with another_server(layout):
        assert finished(cure(layout, inventory, "one.vocoder")).problem is None
    assert "load one" in control.calls


def test_a_model_of_no_voice_is_cured_while_another_server_loads(
    control: FakeControl, layout: Layout, inventory: Inventory
) -> None:
    del inventory.models["inner"], inventory.models["outer"]
    with another_server(layout):
        assert finished(cure(layout, inventory, "echo")).problem is None


def test_a_cure_does_not_wait_for_what_its_own_server_loads(
    control: FakeControl, layout: Layout, inventory: Inventory
) -> None:
    with publishing(layout):
        run = finished(cure(layout, inventory, "one.vocoder"))
        assert (run.problem, may_load(layout)) == (None, False)


def test_a_cure_that_has_waited_does_nothing_to_the_next_engine(
    control: FakeControl, layout: Layout, inventory: Inventory
) -> None:
    given_up = threading.Event()
    with another_server(layout):
        run = cure(layout, inventory, "one.vocoder", publish=pytest.fail, is_given_up=given_up.is_set)
        time.sleep(0.2)
        given_up.set()
        assert finished(run).problem == "the engine ended meanwhile"
    assert control.calls == []
