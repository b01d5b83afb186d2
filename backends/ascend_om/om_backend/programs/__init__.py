"""Stage programs by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from om_backend.cost_store import CostStore
from om_backend.job import Program
from om_backend.programs.direct import DirectProgram
from om_backend.programs.foreign import is_foreign, load_foreign
from om_backend.programs.length_regulated import LengthRegulatedProgram
from om_backend.programs.windowed import WindowedProgram
from om_backend.runtime import Graph, RuntimeSettings, load_graph
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.stage import (
    STAGE_FILE,
    DirectStage,
    LengthRegulatedStage,
    WindowedStage,
    read_stage,
    verify_files,
)


def load_program(version_dir: Path, settings: RuntimeSettings, unit_batch: int | None) -> Program:
    """Read and verify a version directory and load its graphs.

    Args:
        version_dir: directory with ``stage.yaml``, or with a graph file alone.
        settings: of the graph runtimes.
        unit_batch: units per call; ``None`` measures what is cheapest.

    Raises:
        ConfigError: the directory, a file or a graph is not what ``stage.yaml`` says.
        Unavailable: a graph asks for a device that is not here.
    """
    if is_foreign(version_dir):
        return load_foreign(version_dir, settings, unit_batch)
    stage = read_stage(version_dir)
    verify_files(version_dir, stage)
    graphs = {name: load_graph(version_dir, spec, settings) for name, spec in stage.graphs.items()}
    store = CostStore.of_environment(settings)
    if isinstance(stage, LengthRegulatedStage):
        return LengthRegulatedProgram(stage, graphs, unit_batch, store)
    if isinstance(stage, WindowedStage):
        return WindowedProgram(stage, graphs, unit_batch, store, _opening_graph(version_dir, stage, settings))
    if isinstance(stage, DirectStage):
        return DirectProgram(stage, graphs, unit_batch, store)
    raise ConfigError(f"program {stage.program!r} is not one that ascend_om runs", file=version_dir / STAGE_FILE)


def _opening_graph(version_dir: Path, stage: WindowedStage, settings: RuntimeSettings) -> Graph | None:
    """The generator once more, with the threads for windows that begin segments; None if those have no more."""
    spec = stage.graphs["generator"]
    if spec.device != "cpu" or not stage.options.first_window_frames or settings.opening_threads == settings.threads:
        return None
    return load_graph(version_dir, spec, replace(settings, threads=settings.opening_threads))
