"""A server with a voice, a fake engine, and a clock that the test moves."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.repository.tiny import make_voice
from voxrepo.edge.table import EdgeTable, read_table
from voxrepo.repository.arms import CheckedArm, check_arm
from voxrepo.repository.check import CheckedVoice, Inventory, take_inventory
from voxrepo.repository.layout import Layout
from voxrepo.rollout.plan import Plan, PlannedVoice, ReplicaStatus, RolloutFolder, Versions, read_json, write_json
from voxrepo.rollout.route import Route
from voxrepo.supervisor import arm_change
from voxrepo.supervisor.arm_change import EngineFacts
from voxrepo.supervisor.arm_work import Spoiled, Standing
from voxrepo.supervisor.arms import Arms
from voxrepo.supervisor.board import Board
from voxrepo.supervisor.loader import initial_statuses
from voxrepo.supervisor.state import ServerState, StateFolder
from voxrepo_contract.errors import VoxrepoError

A: Versions = {"text_frontend": 1, "acoustic": 1, "vocoder": 1}
B: Versions = {**A, "vocoder": 2}


class Scene:
    """One server with a voice ``one`` and a fake engine; time goes by as the test says."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._make_voice("one")
        self.now_s = 100.0
        self.uses: set[str] = set()
        self.is_behind = False
        self.done: list[str] = []
        self.problems: dict[str, VoxrepoError] = {}
        self.is_slow = False
        folder = StateFolder(layout)
        folder.acquire()
        self.board = Board(folder, ServerState(pid=1, started_at=0.0, phase="ready"), lambda state: None)
        self._serve()
        self.moved: list[CheckedVoice] = []
        self.released: list[tuple[str, set[int]]] = []
        self.tried: list[tuple[str, Versions]] = []
        self.is_trying = False
        self.arms = Arms(layout, "here", self.board, lambda: self, 60.0)  # type: ignore[arg-type,return-value]
        self.start_engine()
        self.folder = RolloutFolder(layout.rollouts)
        self.generation = 0

    def _make_voice(self, name: str) -> None:
        make_voice(self.layout, name)
        vocoder = self.layout.model_repository / f"{name}.vocoder"
        shutil.copytree(vocoder / "1", vocoder / "2")

    def _serve(self) -> None:
        self.board.inventory = take_inventory(self.layout)
        models = [one.model_copy(update={"state": "ready"}) for one in initial_statuses(self.board.inventory).values()]
        self.board.update(models=models)
        self.board.publish(ready=True)

    def add_voice(self, name: str) -> None:
        """Have one more voice, with two vocoders, too."""
        self._make_voice(name)
        self._serve()

    def start_engine(self) -> None:
        self.arms.engine_started(
            EngineFacts(
                "unix:/engine",
                lambda model, version: 0,
                lambda: None,
                lambda: None,
                self.moved.append,
                lambda model, versions, now_s: self.released.append((model, set(versions))),
                lambda voice: self.is_trying,
                self._try_again,
            )
        )

    def _try_again(self, voice: CheckedVoice, now_s: float) -> None:
        self.tried.append((voice.spec.voice, dict(voice.spec.versions)))
        self.given_up = voice

    def come_back(self) -> None:
        """What was given up is served again, as it was last to be tried."""
        self.board.take_back(Inventory(voices={self.given_up.spec.voice: self.given_up}))
        self.board.publish(ready=True)

    def end_engine(self, **options: Any) -> None:
        """The engine ends, and a new one has loaded the voices."""
        self.arms.engine_ended(self.now_s, **options)
        self.board.publish()

    def wait_for(self, generation: int, give_up: Callable[[], bool]) -> bool:
        return not self.is_behind

    def are_free_of(self, generation: int, key: str) -> bool:
        return not self.is_behind and key not in self.uses

    def plan(self, stable: Versions = A, voices: dict[str, PlannedVoice] | None = None, **changes: Any) -> None:
        """Write a plan: of these voices, or of ``one``."""
        self.generation += 1
        voices = voices or {"one": PlannedVoice(rollout="r", stable=stable, **changes)}
        write_json(self.folder.plan_file, Plan(generation=self.generation, voices=voices))

    def step(self, count: int = 1, seconds: float = 0.2) -> None:
        for _ in range(count):
            self.now_s += seconds
            self.arms.step(self.now_s)

    @property
    def table(self) -> EdgeTable:
        return read_table(StateFolder(self.layout).table_file)

    @property
    def status(self) -> ReplicaStatus:
        status = read_json(self.folder.status_file("here"), ReplicaStatus)
        assert status is not None
        return status

    def ready_arm(self, weight: float = 10.0) -> None:
        """Plan an arm and have it loaded."""
        self.plan(arms={"new": B}, route=Route(rollout="r", policy="canary", weights={"new": weight}))
        self.step(3)
        assert self.status.voices["one"].arms["new"].state == "ready"


def make_scene(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """The scene, in which operations on the engine are noted and succeed unless the test says otherwise."""
    scene = Scene(layout)

    class FakeWork:
        def __init__(self, *arguments: Any) -> None:
            pass

        def load_arm(self, standing: Standing, arm: str, versions: Versions) -> CheckedArm:
            self._do(f"load {arm}")
            return check_arm(layout, standing.voice, arm, versions)

        def release(self, standing: Standing, arm: str | None) -> None:
            self._do(f"release {arm}")

        def swap(self, standing: Standing, moved: CheckedVoice) -> None:
            self._do("swap")

        def replace(self, standing: Standing, versions: Versions) -> CheckedVoice:
            self._do("replace")
            return check_arm(layout, standing.voice, "next", versions).as_voice()

        def _do(self, what: str) -> None:
            scene.done.append(what)
            if what in scene.problems:
                raise scene.problems[what]

    class FakeRun:
        """An operation that is done at once, unless the test says otherwise."""

        def __init__(self, name: str, operation: Callable[[], object]) -> None:
            self.started_s = 0.0
            self.problem: str | None = None
            self.is_spoiled = False
            try:
                self.result = operation()
            except VoxrepoError as error:
                self.problem, self.is_spoiled = error.message, isinstance(error, Spoiled)

        @property
        def is_done(self) -> bool:
            return not scene.is_slow

        def join(self, timeout_s: float) -> None:
            pass

    monkeypatch.setattr(arm_change, "ArmWork", FakeWork)
    monkeypatch.setattr(arm_change, "ArmRun", FakeRun)
    return scene
