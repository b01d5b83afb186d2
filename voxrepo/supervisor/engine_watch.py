"""Looking after a running engine: dead stubs, a hang, too much memory. Decides; the server acts."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Set
from dataclasses import dataclass, field, replace
from typing import Literal

from voxrepo.engine.sweep import close_to_others, remove_unused_regions
from voxrepo.engine.workspace import Workspace
from voxrepo.repository.check import CheckedVoice, Inventory
from voxrepo.repository.layout import Layout
from voxrepo.supervisor.arm_guard import ArmGuard, NoArms
from voxrepo.supervisor.memory_watch import INTERVAL_S as MEMORY_INTERVAL_S
from voxrepo.supervisor.memory_watch import MemoryPolicy, default_limit_bytes, held_bytes
from voxrepo.supervisor.mending import Deaths, Mending, MendingRun, dismiss, plan_mending, watched_models
from voxrepo.supervisor.options import ServeOptions
from voxrepo.supervisor.pulse import Pulse
from voxrepo.supervisor.second_chances import Absent, SecondChances
from voxrepo.supervisor.stub_watch import Stub, StubWatch, cause_of_end, kill

log = logging.getLogger(__name__)

Verdict = Literal["well", "kill", "recycle"]

LINGER_S = 120.0
"""How long stubs of an unloaded model may go on with the requests they have; the engine may wait for them for ever."""
RESTARTS_APART_S = 600.0
"""For a model that is not cured by loading it again, the engine is restarted; if that does not help, it is given up."""
MIB = 1024 * 1024


@dataclass(frozen=True)
class WatchLimits:
    """When the engine is helped.

    Attributes:
        hang_timeout_s: silence after which it hangs.
        load_timeout_s: for one load.
        memory_bytes: above which it is started afresh; 0 for never.
    """

    hang_timeout_s: float
    load_timeout_s: float
    memory_bytes: int


def limits_of(options: ServeOptions) -> WatchLimits:
    """What ``voxrepo serve`` was asked for, or the defaults of this machine."""
    mib = options.engine_memory_mib
    return WatchLimits(
        hang_timeout_s=options.engine_timeout_s,
        load_timeout_s=options.load_timeout_s,
        memory_bytes=default_limit_bytes() if mib is None else mib * MIB,
    )


@dataclass
class _Engine:
    """What belongs to one run of the engine."""

    pid: int
    served: Inventory
    stubs: StubWatch
    pulse: Pulse
    run: MendingRun | None = None
    is_back: bool = False
    attempt: tuple[Absent, MendingRun] | None = None
    sick: set[str] = field(default_factory=set)
    retired: list[tuple[float, list[Stub]]] = field(default_factory=list)
    next_memory_s: float = 0.0


class EngineWatch:
    """Looks after the engine while it serves.

    Args:
        workspace: of the server.
        limits: when it is helped.
        is_held: whether the edge holds back requests for all of these voices and models.
        arms: of rollouts.
        layout: of the root, if other servers may use it, too.

    Attributes:
        reloads: how often each model was cured; calls of it from before are lost.
        stub_restarts: stubs that have died and were, or are being, replaced.
        memory_bytes: held by the engine and its stubs at the last look.
    """

    def __init__(
        self,
        workspace: Workspace,
        limits: WatchLimits,
        is_held: Callable[[Set[str]], bool],
        arms: ArmGuard | None = None,
        layout: Layout | None = None,
    ) -> None:
        self._arms = arms or NoArms()
        self._workspace = workspace
        self._layout = layout
        self._limits = limits
        self._is_held = is_held
        self._memory = MemoryPolicy(limits.memory_bytes)
        self._deaths = Deaths()
        self._restarted_for: dict[str, float] = {}
        self._engine: _Engine | None = None
        self.reloads: Counter[str] = Counter()
        self.stub_restarts = 0
        self.memory_bytes = 0
        self._given_up: dict[str, str] = {}
        self._chances = SecondChances()
        self._back = Inventory()

    @property
    def held(self) -> set[str]:
        """Models that clients call and that are being cured."""
        engine = self._engine
        if engine is None:
            return set()
        under_way = engine.run.mending.subjects if engine.run is not None and not engine.is_back else set()
        return under_way | plan_mending(engine.sick, engine.served).subjects

    @property
    def in_cure(self) -> set[str]:
        """Those that are held, and those that serve again and are being tried out."""
        engine = self._engine
        return self.held | (engine.run.mending.subjects if engine is not None and engine.run is not None else set())

    def engine_started(self, pid: int, inventory: Inventory, ready: Collection[str], now_s: float) -> None:
        """An engine has loaded what it could.

        Args:
            pid: of the engine.
            inventory: of the repository.
            ready: voices and models that are served.
            now_s: time on the clock of ``time.monotonic``.
        """
        self.engine_ended()
        served = Inventory(
            voices={name: voice for name, voice in inventory.voices.items() if name in ready},
            models={name: config for name, config in inventory.models.items() if name in ready},
            completed=inventory.completed & set(ready),
        )
        pulse = Pulse(self._workspace.grpc_target, self._limits.hang_timeout_s)
        self._engine = _Engine(pid, served, StubWatch(pid, self._workspace.stubs), pulse, next_memory_s=now_s)
        self._engine.stubs.look(watched_models(served), now_s, search=True)
        self._memory.engine_started(now_s)

    def engine_ended(self) -> bool:
        """There is none to be looked after for now.

        Returns:
            whether there was one.
        """
        was_there = self._engine is not None
        if self._engine is not None:
            self._engine.pulse.close()
        self._engine = None
        self.memory_bytes = 0
        return was_there

    def look_for_new_stubs(self) -> None:
        """Something was loaded: one that was never seen alive dies unnoticed."""
        if self._engine is not None:
            close_to_others(self._workspace)
            self._engine.stubs.search_soon()

    def voice_moved(self, voice: CheckedVoice) -> None:
        """A voice has other versions."""
        if self._engine is not None and voice.spec.voice in self._engine.served.voices:
            self._engine.served.voices[voice.spec.voice] = voice

    def versions_released(self, model: str, versions: Collection[int], now_s: float) -> None:
        """Some versions of a model were unloaded; their stubs are to end, by themselves or in a while."""
        if self._engine is not None:
            self._engine.retired.append((now_s, self._engine.stubs.register.retire([model], versions)))

    def is_tried(self, voice: str) -> bool:
        """Whether a voice that was given up is being tried again at this moment."""
        attempt = self._engine.attempt if self._engine is not None else None
        return attempt is not None and voice in attempt[0].what.voices

    def try_again(self, voice: CheckedVoice, now_s: float) -> None:
        """Try a voice that is not served with these versions, and soon; not while :meth:`is_tried`."""
        self._chances.try_with(voice, now_s)

    def stub_bytes(self, model: str, version: int) -> int:
        """Memory of the stubs of one version of a model; 0 if none is known."""
        return self._engine.stubs.held_bytes(model, version) if self._engine is not None else 0

    def bytes_left(self) -> int | None:
        """Below the engine's memory limit; ``None`` if there is none, or it was not measured yet."""
        if self._limits.memory_bytes <= 0 or self.memory_bytes <= 0:
            return None
        return max(self._limits.memory_bytes - self.memory_bytes, 0)

    def take_given_up(self) -> dict[str, str]:
        """Models that clients call and that are not to be served any more, with the reason; each is told once."""
        given_up, self._given_up = self._given_up, {}
        return given_up

    def take_back(self) -> Inventory:
        """Voices and models that were given up and are well again; each is told once."""
        back, self._back = self._back, Inventory()
        return back

    def step(self, now_s: float) -> Verdict:
        """Look once; nothing here waits.

        Args:
            now_s: time on the clock of ``time.monotonic``.

        Returns:
            what the engine needs from the server.
        """
        engine = self._engine
        if engine is None:
            return "well"
        if engine.pulse.step(now_s):
            log.error("the engine has not answered for %.1f s; it is killed", engine.pulse.silence_s)
            return "kill"
        self._look_at_stubs(engine, now_s)
        if not self._go_on_mending(engine, now_s):
            return "kill"
        self._end_retired(engine, now_s)
        self._try_again(engine, now_s)
        if now_s >= engine.next_memory_s:
            engine.next_memory_s = now_s + MEMORY_INTERVAL_S
            if self._needs_recycling(engine, now_s):
                return "recycle"
        return "well"

    def _look_at_stubs(self, engine: _Engine, now_s: float) -> None:
        # new stubs start while a cure or an attempt runs, and may die again at once
        search = engine.run is not None or engine.attempt is not None
        ended = engine.stubs.look(watched_models(engine.served), now_s, search=search)
        fates = {stub: self._arms.fate(stub) for stub in ended}
        for stub, fate in fates.items():
            if fate == "arm":
                log.error(
                    "a stub of %s version %s (pid %d) has died; its arms are dropped",
                    stub.model,
                    stub.version,
                    stub.pid,
                )
                self._arms.died(stub, cause_of_end(stub))
        dead = [stub for stub in ended if fates[stub] == "cure"]
        for stub in dead:
            log.error("a stub of %s (pid %d) has died; the model is loaded again", stub.model, stub.pid)
        self.stub_restarts += len(dead)
        models = {stub.model for stub in dead}
        hopeless = self._deaths.count(sorted(models), now_s)
        engine.sick |= models
        for model in sorted(hopeless):
            times = f"{self._deaths.most} times within {self._deaths.within_s:g} s"
            self._give_up(
                engine, model, f"the stubs of {model} died {times}; the engine's log (engine.log) may say why", now_s
            )

    def _helped_in_vain(self, models: Set[str], now_s: float) -> bool:
        """Whether the engine was restarted for one of these models not long ago; it is noted that it is now."""
        lately = {model for model in models if now_s - self._restarted_for.get(model, float("-inf")) < RESTARTS_APART_S}
        self._restarted_for.update(dict.fromkeys(models - lately, now_s))
        return bool(lately)

    def _give_up(self, engine: _Engine, model: str, why: str, now_s: float) -> None:
        mending = plan_mending({model}, engine.served)
        if not mending.models:  # gone with another one, a moment ago
            return
        stages = [stage for spec in mending.voices for stage in spec.stage_models().values()]
        served, subjects = engine.served, mending.subjects
        absent = Inventory(
            voices={name: served.voices.pop(name) for name in sorted(subjects & set(served.voices))},
            models={name: served.models.pop(name) for name in sorted(subjects & set(served.models))},
            completed=served.completed & subjects,
        )
        wait_s = self._chances.give_up(absent, now_s)
        for name in sorted(subjects):
            log.error("%s is not served any more: %s", name, why)
            self._given_up[name] = (
                f"{why}. It is tried again after {wait_s / 60:g} minutes, then less often, and when the server is "
                "restarted"
            )
        gone = {*stages, *mending.models}
        engine.sick -= gone
        engine.stubs.register.retire(gone)
        # in a thread of its own: the engine may be busy
        dismiss(self._workspace.grpc_target, [*reversed(mending.ensembles), *sorted(gone)])

    def _go_on_mending(self, engine: _Engine, now_s: float) -> bool:
        """Start, follow and end cures; False if only a fresh engine can help."""
        run = engine.run
        if run is not None:
            is_done = run.is_done
            if run.is_loaded and not engine.is_back:
                self._serve_again(engine, run, now_s)
            # voices that are being tried out when another stub dies may wait for it long; the next cure tries them too
            if not is_done and not (engine.is_back and engine.sick):
                return True
            engine.run = None
            names = ", ".join(run.mending.models)
            if is_done:
                self._arms.lost(run.take_lost())
            if not is_done or run.problem is None:
                pass
            elif engine.sick:
                log.error("%s is not cured yet: %s", names, run.problem)
                engine.sick |= set(run.mending.models) & watched_models(engine.served)
            elif failed := set(run.mending.models) & watched_models(engine.served):
                if not self._helped_in_vain(failed, now_s):
                    log.error("%s is not cured by loading it again, the engine is restarted: %s", names, run.problem)
                    return False
                for model in sorted(failed):
                    self._give_up(
                        engine, model, f"{model} cannot be loaded again after a stub of it died: {run.problem}", now_s
                    )
        if engine.sick:
            mending = plan_mending(engine.sick, engine.served)
            engine.sick = set()
            self._start(engine, mending, now_s)
        return True

    def _serve_again(self, engine: _Engine, run: MendingRun, now_s: float) -> None:
        engine.is_back = True
        self._arms.lost(run.take_lost())  # before anybody is let in
        close_to_others(self._workspace)
        self.reloads.update((*run.mending.models, *run.mending.ensembles, *run.mending.arms))
        log.warning("%s is cured after %.1f s", ", ".join(run.mending.models), now_s - run.started_s)

    def _start(self, engine: _Engine, mending: Mending, now_s: float) -> None:
        subjects = mending.subjects
        engine.retired.append((now_s, engine.stubs.register.retire(mending.models)))
        voices = [spec.voice for spec in mending.voices]
        engine.is_back = False
        mending = replace(mending, arms=self._arms.cured_with(voices))
        engine.run = self._run_of(engine, mending, lambda: self._is_held(subjects))

    def _run_of(self, engine: _Engine, mending: Mending, is_held: Callable[[], bool]) -> MendingRun:
        return MendingRun(
            self._workspace.grpc_target,
            mending,
            is_held,
            self._limits.load_timeout_s,
            self._arms.publisher([spec.voice for spec in mending.voices]),
            self._layout,
            lambda: self._engine is not engine,
        )

    def _try_again(self, engine: _Engine, now_s: float) -> None:
        """Start and end attempts at what was given up, one at a time; beside cures, which are not to wait for them."""
        if engine.attempt is None:
            absent = self._chances.due(now_s)
            if absent is not None:
                mending = plan_mending(watched_models(absent.what), absent.what)
                log.warning("%s is tried again", ", ".join(sorted(mending.subjects)))
                engine.attempt = absent, self._run_of(engine, mending, lambda: True)
            return
        absent, run = engine.attempt
        if not run.is_done:
            return
        engine.attempt = None
        names = ", ".join(sorted(run.mending.subjects))
        if run.problem is not None:
            log.error("%s is still not served, tried again in %g s: %s", names, absent.wait_s, run.problem)
            dismiss(self._workspace.grpc_target, [*reversed(run.mending.ensembles), *run.mending.models])
            return
        log.warning("%s is served again", names)
        self._chances.succeeded(absent, now_s)
        close_to_others(self._workspace)
        for inventory in (engine.served, self._back):
            inventory.voices.update(absent.what.voices)
            inventory.models.update(absent.what.models)
        engine.served.completed |= absent.what.completed
        self._look_at_stubs(engine, now_s)  # before anybody calls them: one that was never seen alive dies unnoticed

    def _end_retired(self, engine: _Engine, now_s: float) -> None:
        due = [stubs for since_s, stubs in engine.retired if now_s - since_s >= LINGER_S]
        engine.retired = [entry for entry in engine.retired if now_s - entry[0] < LINGER_S]
        for stubs in due:
            for stub in kill(stubs):
                log.warning("a stub of %s (pid %d) from before its cure was still there; killed", stub.model, stub.pid)
            for region in remove_unused_regions(self._workspace, engine.pid):
                log.info("removed %s, which nobody used any more", region)

    def _needs_recycling(self, engine: _Engine, now_s: float) -> bool:
        self.memory_bytes = held_bytes(engine.pid)
        was_too_low = self._memory.limit_is_too_low
        exceeds = self._memory.exceeds(self.memory_bytes, now_s)
        if self._memory.limit_is_too_low and not was_too_low:
            log.warning(
                "the engine holds %d MiB with everything loaded and its limit is %d MiB; it is not started afresh at "
                "the limit. Raise --engine-memory-limit",
                self.memory_bytes // MIB,
                self._memory.limit_bytes // MIB,
            )
        if exceeds and engine.run is None and not engine.sick:
            log.warning(
                "the engine holds %d MiB, its limit is %d MiB; it is started afresh",
                self.memory_bytes // MIB,
                self._memory.limit_bytes // MIB,
            )
            return True
        return False
