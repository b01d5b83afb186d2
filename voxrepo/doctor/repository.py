"""The voices and models of a root: are they sound, and where would each of their graphs run?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from voxrepo.doctor.machine import Machine
from voxrepo.doctor.report import Finding, GraphPlace, ok, problem, warning
from voxrepo.repository.check import Inventory, take_inventory
from voxrepo.repository.layout import Layout
from voxrepo_contract import om
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.foreign import read_foreign
from voxrepo_contract.names import stage_model_name
from voxrepo_contract.stage import STAGE_FILE, TextFrontendStage, read_stage

Device = Literal["cpu", "npu", "emulator"]


@dataclass(frozen=True)
class Npu:
    """What is known of the device that NPU graphs would run on. Texts are "" and numbers 0 where not known.

    Attributes:
        soc: chip.
        opp_version: version of the operator package.
        virtual: whether it is a slice of a chip; None if not known.
        free_bytes: memory free on the device.
    """

    soc: str = ""
    opp_version: str = ""
    virtual: bool | None = None
    free_bytes: int = 0


@dataclass(frozen=True)
class _Graph:
    model: str
    version: int
    name: str
    file: Path
    device: str


def take_stock(layout: Layout) -> tuple[list[Finding], Inventory]:
    """Check everything under a root."""
    if not layout.model_repository.is_dir() and not layout.ensembles.is_dir():
        text = f"{layout.root} holds neither model_repository/ nor ensembles/."
        return [
            warning("repository", text, "Name the folder with --root, or bring in a voice: voxrepo voice import.")
        ], Inventory()
    inventory = take_inventory(layout)
    findings = [
        problem(f"{item.kind} {item.subject}", f"It is not served: {item.reason.rstrip('.')}.")
        for item in inventory.problems
    ]
    if inventory.voices or inventory.models:
        voices = ", ".join(inventory.voices) or "none"
        findings.append(
            ok("repository", f"Sound voices: {voices}; other models: {', '.join(inventory.models) or 'none'}.")
        )
    elif not findings:
        findings.append(warning("repository", "There is no voice and no model yet.", "Run: voxrepo voice import piper"))
    return findings, inventory


def voices_with_espeak(inventory: Inventory) -> list[str]:
    """Names of the voices whose front end needs the espeak phonemizer."""
    return [
        name
        for name, voice in inventory.voices.items()
        for stage in voice.stages.values()
        if isinstance(stage, TextFrontendStage) and stage.options.phonemizer == "espeak"
    ]


def check_graphs(
    machine: Machine, layout: Layout, inventory: Inventory, device: Device, npu: Npu
) -> tuple[list[Finding], list[GraphPlace]]:
    """Where each graph of the sound voices and models runs if the server is started for ``device``."""
    findings: list[Finding] = []
    places: list[GraphPlace] = []
    needed = 0
    for graph in _graphs(layout, inventory):
        try:
            reason, memory_bytes = _examine(machine, graph, device, npu)
        except ConfigError as error:
            reason, memory_bytes = error.message, 0
        needed += memory_bytes
        place = "nowhere" if reason else "cpu" if graph.device == "cpu" else device
        places.append(GraphPlace(graph.model, graph.version, graph.name, str(graph.file), place, reason))
        if reason:
            findings.append(problem(f"model {graph.model}", f"Version {graph.version}, {graph.file.name}: {reason}."))
    counts = {place: sum(item.place == place for item in places) for place in ("cpu", "npu", "emulator")}
    shown = ", ".join(
        f"{count} on the {'CPU' if place == 'cpu' else place}" for place, count in counts.items() if count
    )
    if shown:
        findings.append(ok("graphs", f"Graphs run: {shown}."))
    if needed and npu.free_bytes:
        findings.append(_memory(needed, npu.free_bytes))
    return findings, places


def _memory(needed: int, free: int) -> Finding:
    text = f"The NPU graphs need at least {needed >> 20} MiB on the device, {free >> 20} MiB are free"
    if needed > free:
        return problem("memory", f"{text}.", "Serve fewer models or instances on it, or use another device.")
    return ok("memory", f"{text}.")


def _graphs(layout: Layout, inventory: Inventory) -> Iterator[_Graph]:
    for name, voice in inventory.voices.items():
        for stage_name, stage in voice.stages.items():
            model, version = stage_model_name(name, stage_name), voice.spec.versions[stage_name]
            for graph, spec in stage.graphs.items():
                yield _Graph(model, version, graph, layout.version_dir(model, version) / spec.file, spec.device)
    for name, config in inventory.models.items():
        folder = layout.model_repository / name
        if config.backend != "ascend_om" or not folder.is_dir():
            continue
        for version in inventory.versions.get(name, ()):
            yield from _model_graphs(name, version, folder / str(version))


def _model_graphs(model: str, version: int, folder: Path) -> Iterator[_Graph]:
    if (folder / STAGE_FILE).is_file():
        for name, spec in read_stage(folder).graphs.items():
            yield _Graph(model, version, name, folder / spec.file, spec.device)
    else:
        found = read_foreign(folder)
        yield _Graph(model, version, "model", folder / found.file, found.device)


def _examine(machine: Machine, graph: _Graph, device: Device, npu: Npu) -> tuple[str, int]:
    """Why a graph would be refused, "" if it would not; and the device memory it needs, 0 if not known."""
    if graph.device == "cpu":
        return "", 0
    kind = om.identify(graph.file) if graph.file.suffix == ".om" else "unknown"
    if device == "cpu":
        return "it asks for an NPU and the server would run without one; it is never moved to the CPU silently", 0
    if device == "emulator":
        if kind == "om":
            return "it is for an NPU, and the emulator runs only what `voxrepo convert --target emulator` made", 0
        return "", 0
    if kind == "emulated_om":
        return "it is for the emulator; convert the ONNX file for the chip with ATC", 0
    if kind != "om":
        return "", 0
    read = om.read(graph.file)
    host = om.Host(machine.os, machine.cpu, npu.virtual)
    reasons = om.check_fits(read, npu.soc, npu.opp_version, host)
    return "; ".join(reasons), read.weight_bytes + read.memory_bytes
