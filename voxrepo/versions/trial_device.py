"""What a trial's graphs run on, and the refusal of a trial that could not run here, before any engine starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from voxrepo.repository.arms import CheckedArm
from voxrepo.repository.layout import Layout
from voxrepo.supervisor.device import Asked, DeviceChoice, choose_device, find_python
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.names import stage_model_name
from voxrepo_contract.om.sniff import identify

UNTRIED = "or add it untried with --no-smoke"


def device_for(
    trial: Layout,
    arm: CheckedArm,
    asked: Asked,
    worker_python: Path | None = None,
    choose: Callable[..., DeviceChoice] = choose_device,
) -> DeviceChoice:
    """Decide for the ``--device`` of a trial.

    Args:
        trial: root that holds the voice and the arm.
        arm: with the new version.
        asked: what the user wants; with ``auto`` an NPU is only looked for if a graph needs one.
        worker_python: Python of device workers; this one if not given.
        choose: tells what there is on this machine.

    Raises:
        ConfigError: a graph needs a device that is not there, or another one than was asked for; the text says where
            the version can be added.
    """
    needy = _graphs_for_npu(trial, arm)
    if asked == "auto" and not needy:
        return DeviceChoice("cpu", "no graph of the voice asks for an NPU", find_python(worker_python))
    choice = choose(asked, worker_python=worker_python)
    for what, file in needy:
        is_emulated = identify(file) == "emulated_om"
        if is_emulated and choice.device != "emulator":
            raise ConfigError(
                f"{what} is an emulated OM, which runs in voxrepo's emulator only; say so with --device emulator, "
                f"{UNTRIED}"
            )
        if not is_emulated and choice.device == "emulator":
            raise ConfigError(
                f"{what} is compiled for a real NPU, and the emulator runs emulated OMs only; add it on the machine "
                f"with the NPU, {UNTRIED}"
            )
        if choice.device == "cpu":
            why = "--device cpu leaves graphs for it out" if asked == "cpu" else choice.reason.partition(";")[0]
            raise ConfigError(
                f"{what} needs an NPU to be tried on, and {why}; add it on the machine with the NPU, {UNTRIED}"
            )
    return choice


def _graphs_for_npu(trial: Layout, arm: CheckedArm) -> list[tuple[str, Path]]:
    """Graphs with ``device: npu`` of the arm and of the voice as it is: what each is, and its file."""
    voice = arm.voice.spec
    found: dict[tuple[str, int], list[tuple[str, Path]]] = {}
    for versions, stages in ((arm.versions, arm.stages), (voice.versions, arm.voice.stages)):
        for stage, spec in stages.items():
            model, version = stage_model_name(voice.voice, stage), versions[stage]
            whose = f"{model} version {version}"
            if versions is not arm.versions or stage not in arm.differing:
                whose += ", which the voice has now:"
            found[stage, version] = [
                (f"{whose} graph {name!r} ({entry.file})", trial.version_dir(model, version) / entry.file)
                for name, entry in spec.graphs.items()
                if entry.device == "npu"
            ]
    return [graph for graphs in found.values() for graph in graphs]
