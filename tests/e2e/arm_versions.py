"""Further versions of a voice's vocoder that are told apart by their sound, or are broken; and plans that use them."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.harness import VOICE, RunningServer, edit_yaml
from voxrepo.repository.layout import Layout
from voxrepo.rollout.plan import Plan, PlannedVoice, ReplicaStatus, RolloutFolder, read_json, write_json
from voxrepo.rollout.route import Route
from voxrepo_contract.stage import sha256_of

VOCODER = f"{VOICE}.vocoder"
WHOLE = {"text_frontend": 1, "acoustic": 1, "vocoder": 1}
ROLLOUT = "r1"


def with_vocoder(version: int) -> dict[str, int]:
    """Versions of an arm."""
    return {**WHOLE, "vocoder": version}


def one_process_per_stage(root: Path) -> None:
    """Let a voice's stages have one process each, and nothing to be measured at each load."""
    settings = {
        f"stages__{stage}__{key}": 1 for stage in ("acoustic", "vocoder") for key in ("instances", "unit_batch")
    }
    edit_yaml(root / "ensembles" / VOICE / "voice.yaml", **settings)


def add_vocoder(root: Path, version: int, gain: float) -> Path:
    """A version that makes the audio of version 1 times ``gain``; returns its folder."""
    folder = _copy(root, version)
    file = folder / "generator.onnx"
    model = onnx.load(str(root / "model_repository" / VOCODER / "1" / "generator.onnx"))
    (output,) = model.graph.output
    for node in model.graph.node:
        node.output[:] = ["audio_before_gain" if name == output.name else name for name in node.output]
    model.graph.initializer.append(numpy_helper.from_array(np.array(gain, np.float32), "gain"))
    model.graph.node.append(helper.make_node("Mul", ["audio_before_gain", "gain"], [output.name]))
    file.unlink()  # a link to version 1's
    onnx.save(model, str(file))
    edit_yaml(folder / "stage.yaml", graphs__generator__sha256=sha256_of(file))
    return folder


def add_unreadable_vocoder(root: Path, version: int) -> None:
    """A version whose graph is none, though everything around it says it is."""
    folder = _copy(root, version)
    file = folder / "generator.onnx"
    file.unlink()
    file.write_bytes(b"not a graph")
    edit_yaml(folder / "stage.yaml", graphs__generator__sha256=sha256_of(file))


def _copy(root: Path, version: int) -> Path:
    folder = root / "model_repository" / VOCODER / str(version)
    shutil.copytree(root / "model_repository" / VOCODER / "1", folder)
    return folder


class Planner:
    """Writes plans for one server and waits for what comes of them.

    Args:
        server: that follows.
        rollout: id of the rollout that they tell of.
    """

    def __init__(self, server: RunningServer, rollout: str = ROLLOUT) -> None:
        self._server = server
        self._rollout = rollout
        self._folder = RolloutFolder(Layout.of(server.root).rollouts)
        before = read_json(self._folder.plan_file, Plan)
        self.generation = before.generation if before is not None else 0

    def plan(
        self,
        stable: Mapping[str, int] = WHOLE,
        arms: Mapping[str, Mapping[str, int]] | None = None,
        weights: Mapping[str, float] | None = None,
        *,
        resource_preserving: bool = False,
        rollout: str = "",
    ) -> None:
        """Want this of the voice, for another rollout if one is named."""
        rollout = rollout or self._rollout
        route = Route(rollout=rollout, policy="canary", weights=dict(weights)) if weights else None
        self.generation += 1
        voice = PlannedVoice(
            rollout=rollout,
            stable=dict(stable),
            arms={arm: dict(versions) for arm, versions in (arms or {}).items()},
            route=route,
            resource_preserving=resource_preserving,
        )
        write_json(self._folder.plan_file, Plan(generation=self.generation, voices={VOICE: voice}))

    def no_plan(self) -> None:
        """Want nothing."""
        self.generation += 1
        write_json(self._folder.plan_file, Plan(generation=self.generation))

    def status(self) -> ReplicaStatus | None:
        name = self._server.read_state().get("replica", "")
        return read_json(self._folder.status_file(name), ReplicaStatus) if name else None

    def wait(self, condition: Callable[[ReplicaStatus], Any] = lambda status: True, timeout_s: float = 150) -> Any:
        """Wait until the plan is carried out and a condition holds; returns the voice's status."""
        end = time.monotonic() + timeout_s
        while True:
            status = self.status()
            if status is not None and status.generation == self.generation and condition(status):
                return status.voices.get(VOICE)
            if time.monotonic() > end:
                raise AssertionError(f"not within {timeout_s:g} s: {status}\n{self._server.log()[-4000:]}")
            time.sleep(0.02)


def loaded_versions(server: RunningServer) -> set[int]:
    """Versions of the vocoder whose stubs live."""
    found = set()
    for file in server.workspace.stubs.glob("*.json"):
        facts = json.loads(file.read_bytes())
        if facts["model"] == VOCODER and _runs(int(file.stem)):
            found.add(int(facts["version"]))
    return found


def stub_of(server: RunningServer, version: int) -> int | None:
    """Process id of a stub of a version of the vocoder, as soon as there is one."""
    for file in server.workspace.stubs.glob("*.json"):
        facts = json.loads(file.read_bytes())
        if facts == {"model": VOCODER, "version": version} and _runs(int(file.stem)):
            return int(file.stem)
    return None


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in (b"Z", b"X")
