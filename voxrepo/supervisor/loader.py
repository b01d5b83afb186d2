"""Bringing a checked repository into the engine: stages side by side, then ensembles, then a probe of each voice."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tritonclient.grpc.model_config_pb2 import ModelConfig

from voxrepo.edge.pieces_plan import WindowSizes
from voxrepo.edge.table import EdgeTable, VoiceEntry
from voxrepo.edge.table import Problem as TableProblem
from voxrepo.engine.control import LOAD_TIMEOUT_S, EngineControl
from voxrepo.repository.check import CheckedVoice, Inventory
from voxrepo.repository.render import stage_config
from voxrepo.repository.voice import VoiceSpec
from voxrepo.supervisor.arm_table import ArmTable
from voxrepo.supervisor.device import Device
from voxrepo.supervisor.state import ModelStatus
from voxrepo_contract.errors import Unavailable, VoxrepoError
from voxrepo_contract.stage import WindowedStage

LOADS_AT_ONCE = 8
ENGINE_END_WAIT_S = 5.0


class EngineEnded(Unavailable):
    """The engine ended while it loaded something.

    Attributes:
        names: voices and models that it was loading then; one of them is to blame, if it is not chance.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        super().__init__(f"the engine ended while it loaded {', '.join(self.names)}")


def initial_statuses(inventory: Inventory) -> dict[str, ModelStatus]:
    """Statuses before anything is loaded: what the check refused has failed, the rest is loading."""
    statuses = {
        name: ModelStatus(name=name, kind="voice", state="loading", versions=voice.spec.versions)
        for name, voice in inventory.voices.items()
    }
    for name in inventory.models:
        left_out = {p.version: p.reason for p in inventory.problems if p.model == name and p.version is not None}
        served = list(inventory.versions.get(name, ()))
        statuses[name] = ModelStatus(name=name, kind="model", state="loading", served=served, left_out=left_out)
    for problem in inventory.problems:
        if problem.version is None:
            statuses[problem.model] = ModelStatus(
                name=problem.model, kind=problem.kind, state="failed", reason=problem.reason
            )
    return statuses


def load_everything(
    target: str,
    inventory: Inventory,
    changed: Callable[[ModelStatus], None] = lambda status: None,
    *,
    suspects: Collection[str] = (),
    is_running: Callable[[], bool] = lambda: True,
    load_timeout_s: float = LOAD_TIMEOUT_S,
) -> dict[str, ModelStatus]:
    """Load all sound voices and models. A failure concerns its own model only.

    Voices come first, other models after them, and suspects last, each alone.

    Args:
        target: the engine's gRPC address.
        inventory: of the repository.
        changed: called for each model as soon as its state is known.
        suspects: voices and models of which one may have ended the engine before.
        is_running: whether the engine still does.
        load_timeout_s: for each load.

    Raises:
        EngineEnded: it does not.
    """
    statuses = initial_statuses(inventory)
    loading = [name for name, status in statuses.items() if status.state == "loading"]
    trusted = [name for name in loading if name not in suspects]
    groups = [[name for name in trusted if statuses[name].kind == kind] for kind in ("voice", "model")]
    groups += [[name] for name in loading if name in suspects]
    with EngineControl(target, load_timeout_s) as control, ThreadPoolExecutor(LOADS_AT_ONCE) as pool:
        for group in groups:
            for status in _load_group(control, pool, inventory, [statuses[name] for name in group]):
                statuses[status.name] = status
                if status.state == "ready":
                    changed(status)
            failed = [name for name in group if statuses[name].state == "failed"]
            if failed and _has_ended(control, is_running):
                raise EngineEnded(failed)
            for name in failed:
                changed(statuses[name])
    return statuses


def _has_ended(control: EngineControl, is_running: Callable[[], bool]) -> bool:
    if control.is_live():
        return False
    # its socket closes a moment before the process is gone
    end = time.monotonic() + ENGINE_END_WAIT_S
    while is_running() and time.monotonic() < end:
        time.sleep(0.05)
    return not is_running()


def _load_group(
    control: EngineControl, pool: ThreadPoolExecutor, inventory: Inventory, group: Sequence[ModelStatus]
) -> Iterator[ModelStatus]:
    voices = [inventory.voices[status.name].spec for status in group if status.kind == "voice"]
    stages = [model for spec in voices for model in spec.stage_models().values()]
    failures = dict(zip(stages, pool.map(lambda model: _try(lambda: control.load(model)), stages), strict=True))

    def settle(status: ModelStatus) -> ModelStatus:
        if status.kind == "model":
            # the engine reads what is on disk unless it is handed something else
            config = inventory.models[status.name] if status.name in inventory.completed else None
            reason = _try(lambda: control.load(status.name, config))
        else:
            reason = _bring_up_voice(control, inventory.voices[status.name].spec, failures)
        return status.model_copy(update={"state": "failed" if reason else "ready", "reason": reason or ""})

    return pool.map(settle, group)


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
    generation: int,
    inventory: Inventory,
    statuses: Iterable[ModelStatus],
    *,
    ready: bool,
    cores: int,
    device: Device = "cpu",
    held: Iterable[str] = (),
    reloads: Mapping[str, int] | None = None,
    edge_workers: Iterable[int] = (),
    arms: ArmTable | None = None,
) -> EdgeTable:
    """The table for the edge: voices that are ready, those of them that are in recovery, and why others are not.

    Arms, and routes to them, are in it as long as their voice is.
    """
    arms = arms or ArmTable()
    voices = {}
    loading: list[str] = []
    problems = []
    unserved_voices = []
    for status in statuses:
        if status.kind == "voice" and status.state != "ready":
            unserved_voices.append(status.name)
        problems += [
            TableProblem(model=status.name, version=str(version), reason=reason)
            for version, reason in status.left_out.items()
        ]
        if status.state == "failed":
            problems.append(TableProblem(model=status.name, reason=status.reason))
        elif status.state == "loading":
            loading.append(status.name)
        elif status.kind == "voice":
            voices[status.name] = arms.moving.get(status.name) or voice_entry(inventory.voices[status.name])
    workers = list(edge_workers)
    calls = engine_calls(inventory, cores, len(workers))
    rows = voices | {name: entry for name, entry in arms.arms.items() if entry.base in voices}
    calls |= {entry.ensemble: calls[entry.base] for entry in rows.values()}
    return EdgeTable(
        generation=generation,
        ready=ready,
        voices=rows,
        routes={name: route for name, route in arms.routes.items() if name in voices},
        loading=loading,
        held=sorted({*held, *(arms.returning & rows.keys())}),
        draining=sorted(arms.draining & voices.keys()),
        reloads=dict(reloads or {}),
        edge_workers=workers,
        engine_calls=calls,
        engine_pools=engine_pools(inventory, cores, len(workers)),
        problems=problems,
        unserved_voices=unserved_voices,
        device=device,
    )


def engine_calls(inventory: Inventory, cores: int, edge_workers: int = 1) -> dict[str, int]:
    """Calls at a time that keep each model busy: twice what its instances can take, so that the next batch waits ready.

    The acoustic stage and the vocoder on a CPU get what their instances can take, no more: a call takes tens of
    milliseconds there, beside which handing over the next one is nothing, and who waits in the engine cannot be
    overtaken by a first piece. Several edge processes divide twice that, since one may have more to do than another.

    A voice gets the sum of its stages, since a request of it is in one stage at a time; see :func:`engine_pools`, too.
    """
    calls = {name: _busy_calls(config) for name, config in inventory.models.items()}
    for name, voice in inventory.voices.items():
        for stage, config in _stage_configs(voice, cores).items():
            calls[config.name] = _busy_calls(config)
            if _takes_cores(voice, stage, config) and edge_workers <= 1:
                calls[config.name] //= 2
            calls[name] = calls.get(name, 0) + calls[config.name]
    return calls


def engine_pools(inventory: Inventory, cores: int, edge_workers: int = 1) -> dict[str, int]:
    """Calls at a time to all models of a voice together, where its acoustic stage and vocoder run on a CPU.

    One more than there are cores: with as many, a core waits while a call goes from one stage to the next; with more,
    calls only take the cores from each other. On 2 cores, 3 places against 6 made 16 clients with whole requests 6 %
    faster, and with 8 streams beside them first pieces came after 0.5 s instead of 2.9 s.

    Several edge processes get one more each, since they divide the places.
    """
    pools = {}
    for name, voice in inventory.voices.items():
        configs = _stage_configs(voice, cores)
        sharing = [config for stage, config in configs.items() if _takes_cores(voice, stage, config)]
        if len(sharing) == 2:
            instances = sum(map(_instances, sharing))
            pools[name] = min(cores, instances) + max(edge_workers, 1)
    return pools


def _stage_configs(voice: CheckedVoice, cores: int) -> dict[str, ModelConfig]:
    """By stage, in the order in which a request passes them."""
    return {
        stage: stage_config(
            voice.spec.voice, stage, settings, channels=voice.channels, cores=cores, on_npu=voice.is_on_npu(stage)
        )
        for stage, settings in voice.spec.stages.items()
    }


def _takes_cores(voice: CheckedVoice, stage: str, config: ModelConfig) -> bool:
    """Whether its calls are long, and take the cores that the other stages need."""
    return stage != "text_frontend" and not voice.is_on_npu(stage) and config.max_batch_size <= 1


def _instances(config: ModelConfig) -> int:
    return sum(max(group.count, 1) for group in config.instance_group) or 1


def _busy_calls(config: ModelConfig) -> int:
    return 2 * _instances(config) * max(int(config.max_batch_size), 1)


def voice_entry(voice: CheckedVoice) -> VoiceEntry:
    """The row of a voice."""
    spec, vocoder = voice.spec, voice.stages["vocoder"]
    assert isinstance(vocoder, WindowedStage)
    assert vocoder.interface.channels is not None
    assert vocoder.interface.hop_length_samples is not None
    sizes = window_sizes(vocoder)
    return VoiceEntry(
        name=spec.voice,
        language=spec.language,
        sample_rate_hz=spec.sample_rate_hz,
        speakers=spec.speakers,
        max_text_chars=spec.limits.max_text_chars,
        speed_min=spec.limits.speed_min,
        speed_max=spec.limits.speed_max,
        versions=spec.versions,
        channels=vocoder.interface.channels,
        hop_length_samples=vocoder.interface.hop_length_samples,
        window_frames=sizes.window,
        overlap_frames=sizes.overlap,
        first_window_frames=sizes.first,
    )


def window_sizes(vocoder: WindowedStage) -> WindowSizes:
    """Sizes of a vocoder's windows: those of its options, or of its graph's lengths where that has a few only.

    A graph that is built for certain lengths has windows of just these, and the vocoder chooses among them by what they
    cost, so that nothing can be said of the first.
    """
    options, graph = vocoder.options, vocoder.graphs["generator"]
    axis = next((tensor.dims[-1] for tensor in graph.inputs if tensor.name == "features"), "")
    lengths = [axis] if isinstance(axis, int) else [gear[axis] for gear in graph.gears if axis in gear]
    if lengths:
        return WindowSizes(max(lengths), options.overlap_frames, max(lengths))
    first = options.first_window_frames or options.window_frames
    return WindowSizes(options.window_frames, options.overlap_frames, first)
