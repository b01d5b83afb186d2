"""Curing models of which a stub has died: the engine does it only by unload and load."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

from tritonclient.grpc.model_config_pb2 import ModelConfig

from voxrepo.engine.control import EngineControl
from voxrepo.repository.check import Inventory
from voxrepo.repository.layout import Layout
from voxrepo.repository.publishing import RECOVERY_WAIT_S, publishing
from voxrepo.repository.voice import VoiceSpec
from voxrepo_contract.errors import Unavailable, VoxrepoError

log = logging.getLogger(__name__)

LOADS_AT_ONCE = 4
HOLD_WAIT_S = 0.6
"""How long the edge gets to hold requests back before their voice is unloaded. It looks every 0.1 s; requests that
slip through are refused by the engine and repeated."""


@dataclass(frozen=True)
class Mending:
    """What one cure consists of.

    Attributes:
        models: to be unloaded and loaded.
        ensembles: all that use them, each after those that it uses itself.
        voices: those of the ensembles that are voices; they are probed.
        configs: what the engine must be handed for a model instead of reading it from disk.
        arms: ensembles of arms of the voices, and how they speak. One that does not come back is no reason not to serve
            its voice.
    """

    models: tuple[str, ...]
    ensembles: tuple[str, ...] = ()
    voices: tuple[VoiceSpec, ...] = ()
    configs: Mapping[str, ModelConfig] = field(default_factory=dict)
    arms: Mapping[str, VoiceSpec] = field(default_factory=dict)

    @property
    def subjects(self) -> set[str]:
        """What clients call of it; the stages of a voice are not."""
        stages = {model for spec in self.voices for model in spec.stage_models().values()}
        return {*self.models, *self.ensembles} - stages


def watched_models(inventory: Inventory) -> set[str]:
    """All models whose stubs are the server's business; those of PyTriton callables are not."""
    stages = {model for voice in inventory.voices.values() for model in voice.spec.stage_models().values()}
    return stages | set(inventory.models)


def plan_mending(models: Collection[str], inventory: Inventory) -> Mending:
    """What has to be done to cure models.

    Args:
        models: whose stubs have died; names that the inventory does not know are left out.
        inventory: of the repository.
    """
    uses: dict[str, set[str]] = {
        name: {step.model_name for step in config.ensemble_scheduling.step} for name, config in inventory.models.items()
    }
    uses |= {name: set(voice.spec.stage_models().values()) for name, voice in inventory.voices.items()}
    sick = set(models) & watched_models(inventory)
    touched = set(sick)
    ensembles: list[str] = []
    while more := sorted(name for name, used in uses.items() if name not in touched and used & touched):
        touched.update(more)
        ensembles += more
    ordered: list[str] = []
    while ensembles:  # the engine knows no circles
        ready = [name for name in ensembles if not uses[name] & set(ensembles)] or ensembles
        ordered += ready
        ensembles = [name for name in ensembles if name not in ready]
    return Mending(
        models=tuple(sorted(sick)),
        ensembles=tuple(ordered),
        voices=tuple(inventory.voices[name].spec for name in ordered if name in inventory.voices),
        configs={name: inventory.models[name] for name in (*sick, *ordered) if name in inventory.completed},
    )


def mend(
    control: EngineControl,
    mending: Mending,
    loaded: Callable[[], None] = lambda: None,
    lost: Callable[[str, str], None] = lambda arm, reason: None,
) -> None:
    """Unload from the outside in, load from the inside out, and let the voices speak.

    Args:
        control: of the engine.
        mending: what to do.
        loaded: called before the voices speak.
        lost: called for arms that do not come back, with the reason; those that do not load before ``loaded``.

    Raises:
        VoxrepoError: it is not cured.
    """
    for name in (*mending.arms, *reversed(mending.ensembles), *mending.models):
        control.unload(name)
    with ThreadPoolExecutor(LOADS_AT_ONCE) as pool:
        list(pool.map(lambda name: control.load(name, mending.configs.get(name)), mending.models))
    for name in mending.ensembles:
        control.load(name, mending.configs.get(name))
    # before the voices serve: the edge holds requests for an arm as long as those for its voice
    arms = [name for name in mending.arms if _is_kept(name, control.load, lost)]
    loaded()
    for spec in mending.voices:
        control.probe_voice(spec)
    for name in arms:
        _is_kept(name, lambda arm: control.probe_voice(mending.arms[arm], arm), lost)


def _is_kept(arm: str, action: Callable[[str], object], lost: Callable[[str, str], None]) -> bool:
    try:
        action(arm)
    except VoxrepoError as error:
        lost(arm, error.message)
        return False
    return True


class MendingRun:
    """One cure in a thread of its own, so that the supervisor goes on watching everything else.

    The thread is not waited for: whoever ends the engine ends its calls.

    Args:
        target: the engine's gRPC address.
        mending: what to do.
        is_held: whether the edge holds back requests by now.
        load_timeout_s: for each load.
        publish: brings to disk what the engine is to read.
        layout: of the root that other servers use, too; ``None`` if there are none.
        is_given_up: whether the engine this was begun with is gone; nothing is done to the next one.

    Attributes:
        is_loaded: whether everything is loaded. The voices may serve then: what they still have to say to show that
            they can waits in line behind everybody else's calls.
        problem: why it failed, once it has.
    """

    def __init__(
        self,
        target: str,
        mending: Mending,
        is_held: Callable[[], bool],
        load_timeout_s: float,
        publish: Callable[[], None] = lambda: None,
        layout: Layout | None = None,
        is_given_up: Callable[[], bool] = lambda: False,
    ) -> None:
        self.mending = mending
        self._lost: dict[str, str] = {}
        self._publish = publish
        self._layout, self._is_given_up = layout, is_given_up
        self.started_s = time.monotonic()
        self.is_loaded = False
        self.problem: str | None = None
        self._target, self._is_held, self._load_timeout_s = target, is_held, load_timeout_s
        self._thread = threading.Thread(target=self._run, name="mending", daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether it has ended; ``problem`` then says why it failed, if it did."""
        return not self._thread.is_alive()

    def take_lost(self) -> dict[str, str]:
        """Arms that did not come back, with the reason; each is told once."""
        return dict(self._lost.popitem() for _ in range(len(self._lost)))

    def _lose(self, arm: str, reason: str) -> None:
        self._lost[arm] = reason

    def _run(self) -> None:
        end = time.monotonic() + HOLD_WAIT_S
        while not self._is_held() and time.monotonic() < end:
            time.sleep(0.02)
        try:
            with ExitStack() as alone, EngineControl(self._target, load_timeout_s=self._load_timeout_s) as control:
                # other servers write for voices only; a model that no ensemble uses is read without these
                if self._layout is not None and self.mending.ensembles:
                    alone.enter_context(publishing(self._layout, self._is_given_up, RECOVERY_WAIT_S))
                if self._is_given_up():
                    raise Unavailable("the engine ended meanwhile")

                def loaded() -> None:
                    alone.close()  # who speaks reads nothing from disk any more, and may wait in line for long
                    self.is_loaded = True

                self._publish()
                mend(control, self.mending, loaded, self._lose)
        except VoxrepoError as error:
            self.problem = error.message
        except Exception as error:  # a thread's end must be told
            log.exception("%s could not be reloaded", ", ".join(self.mending.models))
            self.problem = str(error) or type(error).__name__


def dismiss(target: str, models: Sequence[str]) -> threading.Thread:
    """Unload models that were given up, in a thread of its own; a refusal is only logged."""

    def run() -> None:
        with EngineControl(target) as control:
            for model in models:
                try:
                    control.unload(model)
                except VoxrepoError as error:
                    log.warning("%s could not be unloaded: %s", model, error.message)

    thread = threading.Thread(target=run, name="dismissing", daemon=True)
    thread.start()
    return thread


class Deaths:
    """Pure: tells a model that is hopeless from one that had bad luck.

    Args:
        most: deaths within the time after which a model is given up.
        within_s: the time.
    """

    def __init__(self, most: int = 5, within_s: float = 60.0) -> None:
        self.most = most
        self.within_s = within_s
        self._times: dict[str, deque[float]] = defaultdict(deque)

    def count(self, models: Sequence[str], now_s: float) -> set[str]:
        """Take in one death for each model; several instances that die at once are one.

        Returns:
            those to be given up.
        """
        hopeless = set()
        for model in set(models):
            times = self._times[model]
            times.append(now_s)
            while now_s - times[0] > self.within_s:
                times.popleft()
            if len(times) >= self.most:
                hopeless.add(model)
        return hopeless
