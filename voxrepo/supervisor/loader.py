"""Bringing a checked repository into the engine: stages side by side, then ensembles, then a probe of each voice."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tritonclient.grpc.model_config_pb2 import ModelConfig

from voxrepo.edge.table import EdgeTable, VoiceEntry
from voxrepo.edge.table import Problem as TableProblem
from voxrepo.engine.control import EngineControl
from voxrepo.repository.check import Inventory
from voxrepo.repository.render import stage_config
from voxrepo.repository.voice import VoiceSpec
from voxrepo.supervisor.state import ModelStatus
from voxrepo_contract.errors import VoxrepoError

LOADS_AT_ONCE = 8


def initial_statuses(inventory: Inventory) -> dict[str, ModelStatus]:
    """Statuses before anything is loaded: what the check refused has failed, the rest is loading."""
    statuses = {
        name: ModelStatus(name=name, kind="voice", state="loading", versions=voice.spec.versions)
        for name, voice in inventory.voices.items()
    }
    statuses |= {name: ModelStatus(name=name, kind="model", state="loading") for name in inventory.models}
    for problem in inventory.problems:
        statuses[problem.model] = ModelStatus(
            name=problem.model, kind=problem.kind, state="failed", reason=problem.reason
        )
    return statuses


def load_everything(
    target: str, inventory: Inventory, changed: Callable[[ModelStatus], None] = lambda status: None
) -> dict[str, ModelStatus]:
    """Load all sound voices and models. A failure concerns its own model only.

    Args:
        target: the engine's gRPC address.
        inventory: of the repository.
        changed: called for each model as soon as its state is known.
    """
    statuses = initial_statuses(inventory)
    stages = [model for voice in inventory.voices.values() for model in voice.spec.stage_models().values()]
    with EngineControl(target) as control, ThreadPoolExecutor(LOADS_AT_ONCE) as pool:
        failures = dict(zip(stages, pool.map(lambda model: _try(lambda: control.load(model)), stages), strict=True))

        def settle(name: str) -> ModelStatus:
            status = statuses[name]
            if status.kind == "model":
                reason = _try(lambda: control.load(name))
            else:
                reason = _bring_up_voice(control, inventory.voices[name].spec, failures)
            return status.model_copy(update={"state": "failed" if reason else "ready", "reason": reason or ""})

        loading = [name for name, status in statuses.items() if status.state == "loading"]
        for status in pool.map(settle, loading):
            statuses[status.name] = status
            changed(status)
    return statuses


def _bring_up_voice(control: EngineControl, spec: VoiceSpec, failures: dict[str, str | None]) -> str | None:
    for model in spec.stage_models().values():
        reason = failures[model]
        if reason:
            # the stages that did load would hold their memory for nothing
            for loaded in spec.stage_models().values():
                if not failures[loaded]:
                    _try(partial(control.unload, loaded))
            return f"stage {model} did not load: {reason}"

    reason = _try(lambda: control.load(spec.voice))
    if reason is not None:
        return reason
    reason = _try(lambda: control.probe_voice(spec))
    if reason is not None:
        _try(lambda: control.unload(spec.voice))  # or the engine would call it ready
    return reason


def _try(action: Callable[[], object]) -> str | None:
    try:
        action()
    except VoxrepoError as error:
        return error.message
    return None


def edge_table(
    generation: int, inventory: Inventory, statuses: Iterable[ModelStatus], *, ready: bool, cores: int
) -> EdgeTable:
    """The table for the edge: voices that are ready, and why others are not."""
    voices = {}
    loading: list[str] = []
    problems = []
    for status in statuses:
        if status.state == "failed":
            problems.append(TableProblem(model=status.name, reason=status.reason))
        elif status.state == "loading":
            loading.append(status.name)
        elif status.kind == "voice":
            voices[status.name] = _entry(inventory.voices[status.name].spec)
    return EdgeTable(
        generation=generation,
        ready=ready,
        voices=voices,
        loading=loading,
        engine_calls=engine_calls(inventory, cores),
        problems=problems,
    )


def engine_calls(inventory: Inventory, cores: int) -> dict[str, int]:
    """Calls at a time that keep each model busy: twice what its instances can take, so that the next batch waits ready.

    A voice gets the sum of its stages, since a request of it is in one stage at a time.
    """
    calls = {name: _busy_calls(config) for name, config in inventory.models.items()}
    for name, voice in inventory.voices.items():
        for stage, settings in voice.spec.stages.items():
            config = stage_config(name, stage, settings, channels=voice.channels, cores=cores)
            calls[config.name] = _busy_calls(config)
            calls[name] = calls.get(name, 0) + calls[config.name]
    return calls


def _busy_calls(config: ModelConfig) -> int:
    instances = sum(max(group.count, 1) for group in config.instance_group) or 1
    return 2 * instances * max(int(config.max_batch_size), 1)


def _entry(spec: VoiceSpec) -> VoiceEntry:
    return VoiceEntry(
        name=spec.voice,
        language=spec.language,
        sample_rate_hz=spec.sample_rate_hz,
        speakers=spec.speakers,
        max_text_chars=spec.limits.max_text_chars,
        speed_min=spec.limits.speed_min,
        speed_max=spec.limits.speed_max,
        versions=spec.versions,
    )
