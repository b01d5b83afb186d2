"""A repository beside the real one, of links, in which a version that nobody has seen yet can be checked and spoken."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from voxrepo.engine.binary import EngineBinary
from voxrepo.engine.command import engine_command, engine_environment
from voxrepo.engine.control import EngineControl
from voxrepo.engine.sweep import sweep
from voxrepo.engine.workspace import Workspace
from voxrepo.repository.check import CheckedVoice
from voxrepo.repository.layout import Layout
from voxrepo.repository.voice import write_voice
from voxrepo.supervisor.child import Child
from voxrepo.supervisor.device import DeviceChoice, prepare_emulator
from voxrepo.supervisor.ports import free_port
from voxrepo_contract.errors import Unavailable
from voxrepo_contract.names import stage_model_name

TRIAL_FOLDER = "trial"
"""Under ``<root>/.voxrepo``: on the same file system as the versions, and found again after a kill."""
START_TIMEOUT_S = 60.0
EXIT_TIMEOUT_S = 5


@contextmanager
def trial_root(layout: Layout, voice: CheckedVoice, versions: Mapping[tuple[str, int], Path]) -> Iterator[Layout]:
    """A root with one voice, and further versions of its stages.

    To be called by one process at a time; see :func:`voxrepo.convert.staging.alone_in`. What a killed one left is
    removed first.

    Args:
        layout: of the real root.
        voice: as it shall be served; its stages get one instance each.
        versions: folders of the further versions, by stage and number.

    Raises:
        OSError: it cannot be built.
    """
    trial = Layout.of(layout.root / ".voxrepo" / TRIAL_FOLDER)
    sweep(Workspace.of(trial))
    shutil.rmtree(trial.root, ignore_errors=True)
    name = voice.spec.voice
    try:
        for stage, version in voice.spec.versions.items():
            _link(layout.version_dir(stage_model_name(name, stage), version), trial, name, stage, version)
        for (stage, version), folder in versions.items():
            if version != voice.spec.versions[stage]:
                _link(folder, trial, name, stage, version)
        settings = {
            stage: old.model_copy(update={"instances": 1, "queue_timeout_ms": 0})
            for stage, old in voice.spec.stages.items()
        }
        stages = voice.spec.stages.model_copy(update=settings)
        write_voice(trial, voice.spec.model_copy(update={"stages": stages}))
        yield trial
    finally:
        shutil.rmtree(trial.root, ignore_errors=True)


def _link(folder: Path, trial: Layout, voice: str, stage: str, version: int) -> None:
    target = trial.version_dir(stage_model_name(voice, stage), version)
    target.mkdir(parents=True)
    for file in folder.iterdir():
        if file.is_file():
            try:
                os.link(file.resolve(), target / file.name)
            except OSError as error:
                if error.errno not in {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP}:
                    raise
                shutil.copyfile(file, target / file.name)  # another file system, or one without links


@dataclass(frozen=True)
class TrialEngine:
    """An engine that runs.

    Attributes:
        control: its control connection.
        target: its gRPC address.
    """

    control: EngineControl
    target: str


@contextmanager
def private_engine(
    trial: Layout, binary: EngineBinary, device: DeviceChoice, emulator_settings: Path | None = None
) -> Iterator[TrialEngine]:
    """An engine that only this process can reach, and that ends with it. Must be called from the main thread.

    Args:
        trial: root that it serves.
        binary: the engine.
        device: what graphs with ``device: npu`` run on.
        emulator_settings: the operator's file for the emulator.

    Raises:
        Unavailable: it did not start.
        ConfigError: its private folder cannot be built, or the settings are wrong or for another device.
    """
    workspace = Workspace.of(trial)
    logs = trial.state / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    choice = prepare_emulator(device, emulator_settings, trial.state, logs)
    try:
        patience_s = workspace.create(trial, binary)
        child = Child(
            "trial engine",
            engine_command(binary, workspace, metrics_port=free_port(), exit_timeout_s=EXIT_TIMEOUT_S),
            logs / "engine.log",
            engine_environment(
                binary,
                os.environ,
                costs_folder=trial.state / "costs",
                locks_folder=trial.state / "locks",
                device=choice.environment(),
                stub_patience_s=patience_s,
            ),
        )
        try:
            with EngineControl(workspace.grpc_target) as control:
                try:
                    control.wait_live(START_TIMEOUT_S, child.is_running)
                except Unavailable as error:
                    raise Unavailable(f"the engine for the trial did not start: {child.last_words()}") from error
                yield TrialEngine(control, workspace.grpc_target)
        finally:
            with contextlib.suppress(KeyboardInterrupt):
                child.stop(EXIT_TIMEOUT_S)
            child.kill()
    finally:
        sweep(workspace)
