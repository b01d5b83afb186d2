"""What is done to the engine for an arm: each operation whole, or taken back. Runs in a thread beside the watch.

Configurations reach the repository only at the moment the engine is told, as loading any ensemble makes the engine read
what lies there for its members. Several servers may share a root, and each of them loads at its own moment; so they
write under one lock, and every operation first writes what this server has in its engine.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from voxrepo.engine.control import EngineControl
from voxrepo.repository.arms import CheckedArm, arm_model_name, check_arm
from voxrepo.repository.check import CheckedVoice
from voxrepo.repository.layout import Layout
from voxrepo.repository.publish import publish_voice
from voxrepo.repository.publishing import LOCK_WAIT_S, RECOVERY_WAIT_S, publishing
from voxrepo.rollout.plan import Versions
from voxrepo.supervisor.arm_memory import Memory, check_memory
from voxrepo_contract.errors import Unavailable, VoxrepoError
from voxrepo_contract.names import stage_model_name

log = logging.getLogger(__name__)

UNLOAD_WAIT_S = 30.0
"""For memory to become free. Requests are held meanwhile, so that nothing keeps a version but what runs already."""
PROBE_REPEATS = 3
"""The probe text is spoken once, and once so many times in a row: a model may fail at the second segment only."""


class Spoiled(Unavailable):
    """A voice is left without versions that work; only a fresh engine helps."""


@dataclass(frozen=True)
class Standing:
    """What one voice has in the engine when an operation begins.

    Attributes:
        voice: as its own ensemble has it.
        arms: versions of all arms whose ensembles are in the engine.
        needed: versions of each stage that must stay.
        loaded: versions of each stage that are there.
    """

    voice: CheckedVoice
    arms: Mapping[str, Versions] = field(default_factory=dict)
    needed: Mapping[str, set[int]] = field(default_factory=dict)
    loaded: Mapping[str, frozenset[int]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of the voice."""
        return self.voice.spec.voice

    def model(self, stage: str) -> str:
        """The engine's model of a stage."""
        return stage_model_name(self.name, stage)


class ArmWork:
    """Operations on one run of an engine.

    Args:
        layout: of the root.
        target: the engine's gRPC address.
        cores: usable cores of this machine.
        load_timeout_s: for each load.
        memory: what there is, and what is held.
        is_given_up: whether the engine this was begun with is gone; nothing is done to the next one.
    """

    def __init__(
        self,
        layout: Layout,
        target: str,
        cores: int,
        load_timeout_s: float,
        memory: Memory,
        is_given_up: Callable[[], bool],
    ) -> None:
        self._layout = layout
        self._target = target
        self._cores = cores
        self._load_timeout_s = load_timeout_s
        self._memory = memory
        self._is_given_up = is_given_up

    def load_arm(self, standing: Standing, arm: str, versions: Versions) -> CheckedArm:
        """Check an arm's files, load what differs, and let it speak.

        Raises:
            VoxrepoError: it cannot be served; everything of it has been taken back.
        """
        checked = check_arm(self._layout, standing.voice, arm, versions)
        stages = [stage for stage in versions if versions[stage] not in standing.loaded.get(stage, frozenset())]
        check_memory(self._layout, standing.voice, checked, stages, self._memory)
        with self._engine() as control:
            try:
                self._publish(standing, {**standing.arms, arm: versions})
                for stage in stages:
                    control.load(standing.model(stage), versions=[versions[stage]])
                control.load(checked.name)
                self._check_pinned(control, checked.name, standing, versions)
                self._probe(control, checked.as_voice(), checked.name)
            except VoxrepoError:
                self._take_back(control, standing, arm, stages)
                raise
        return checked

    def release(self, standing: Standing, arm: str | None) -> None:
        """Unload an arm's ensemble, if it is one, and the versions that nobody needs any more.

        Raises:
            VoxrepoError: the engine refused; it is to be tried again.
        """
        stages = [stage for stage, loaded in standing.loaded.items() if loaded - standing.needed[stage]]
        with self._engine() as control:
            if arm is not None:
                control.unload(arm_model_name(standing.name, arm))
            self._publish(standing, standing.arms)
            for stage in stages:
                control.load(standing.model(stage), versions=sorted(standing.needed[stage]))

    def swap(self, standing: Standing, moved: CheckedVoice) -> None:
        """Let the voice's own ensemble pin other versions, which are loaded, and let it speak.

        Raises:
            VoxrepoError: it does not work; the ensemble is as it was.
            Spoiled: it is not.
        """
        with self._engine() as control:
            try:
                self._pin(control, standing, moved)
            except VoxrepoError:
                self._restore(standing, lambda: self._pin(control, standing, standing.voice))
                raise

    def replace(self, standing: Standing, versions: Versions) -> CheckedVoice:
        """Unload the versions that differ, and only then load others; for a device that cannot hold both.

        Requests must be held meanwhile.

        Raises:
            VoxrepoError: the new versions do not work; the old ones are back.
            Spoiled: they are not.
        """
        voice = standing.voice
        moved = check_arm(self._layout, voice, "next", versions).as_voice()
        stages = [stage for stage, version in voice.spec.versions.items() if versions[stage] != version]
        with self._engine(RECOVERY_WAIT_S) as control:
            try:
                self._exchange(control, standing, moved, stages)
            except VoxrepoError:
                self._restore(standing, lambda: self._exchange(control, standing, voice, stages))
                raise
        return moved

    def _restore(self, standing: Standing, give_back: Callable[[], None]) -> None:
        self._goes_on()
        try:
            give_back()
        except VoxrepoError as error:
            log.error("%s could not be given its old versions again: %s", standing.name, error.message)
            raise Spoiled(
                f"{standing.name} could be given neither the new versions nor the old ones: {error.message}"
            ) from error

    def _exchange(self, control: EngineControl, standing: Standing, voice: CheckedVoice, stages: list[str]) -> None:
        with contextlib.suppress(VoxrepoError):  # it is not there
            control.unload(standing.name)
        for stage in stages:
            with contextlib.suppress(VoxrepoError):
                control.unload(standing.model(stage))
        for stage in stages:
            if not control.wait_unloaded(standing.model(stage), UNLOAD_WAIT_S):
                log.warning("%s still holds memory after %g s", standing.model(stage), UNLOAD_WAIT_S)
        self._goes_on()
        publish_voice(self._layout, voice, standing.arms, self._cores)
        for stage in stages:
            control.load(standing.model(stage), versions=[voice.spec.versions[stage]])
        control.load(standing.name)
        self._check_pinned(control, standing.name, standing, voice.spec.versions)
        self._probe(control, voice, standing.name)

    def _pin(self, control: EngineControl, standing: Standing, voice: CheckedVoice) -> None:
        publish_voice(self._layout, voice, standing.arms, self._cores, keep=standing.needed)
        control.load(standing.name)
        self._check_pinned(control, standing.name, standing, voice.spec.versions)
        self._probe(control, voice, standing.name)

    def _check_pinned(self, control: EngineControl, ensemble: str, standing: Standing, versions: Versions) -> None:
        """The engine answers 200 to a load that did nothing; an ensemble must not pin what it had before."""
        found = control.pinned_versions(ensemble)
        for stage, version in versions.items():
            if found.get(standing.model(stage)) != version:
                raise Unavailable(
                    f"the engine has {ensemble} with {stage} version {found.get(standing.model(stage))} and not "
                    f"{version} after a load; its log may say why"
                )

    def _probe(self, control: EngineControl, voice: CheckedVoice, ensemble: str) -> None:
        text = voice.spec.probe_text
        for spoken in (text, " ".join([text] * PROBE_REPEATS)):
            control.probe_voice(voice.spec, ensemble, spoken)

    def _take_back(self, control: EngineControl, standing: Standing, arm: str, stages: list[str]) -> None:
        """Leave nothing of an arm that failed: neither its folder, nor what was loaded for it."""
        if self._is_given_up():
            return  # with the engine it is gone as well
        with contextlib.suppress(VoxrepoError):  # it never came to be loaded
            control.unload(arm_model_name(standing.name, arm))
        try:
            self._publish(standing, standing.arms)
            for stage in stages:
                control.load(standing.model(stage))
        except VoxrepoError as error:
            log.error("%s could not be taken back wholly: %s", arm_model_name(standing.name, arm), error.message)

    def _publish(self, standing: Standing, arms: Mapping[str, Versions]) -> None:
        self._goes_on()
        publish_voice(self._layout, standing.voice, arms, self._cores, keep=standing.needed)

    def _goes_on(self) -> None:
        if self._is_given_up():
            raise Unavailable("the engine ended meanwhile")

    @contextlib.contextmanager
    def _engine(self, wait_s: float = LOCK_WAIT_S) -> Iterator[EngineControl]:
        lock = publishing(self._layout, self._is_given_up, wait_s)
        with lock, EngineControl(self._target, self._load_timeout_s) as control:
            self._goes_on()
            yield control


class ArmRun:
    """One operation in a thread of its own.

    Args:
        name: for the log.
        operation: returns what it made; raises :class:`VoxrepoError` with the reason if it failed.
    """

    def __init__(self, name: str, operation: Callable[[], object]) -> None:
        self.started_s = time.monotonic()
        self.result: object = None
        self.problem: str | None = None
        self.is_spoiled = False
        self._operation = operation
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether it has ended; ``problem`` then says why it failed, if it did."""
        return not self._thread.is_alive()

    def join(self, timeout_s: float) -> None:
        """Wait for its end for a while."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            self.result = self._operation()
        except VoxrepoError as error:
            self.problem = str(error)
            self.is_spoiled = isinstance(error, Spoiled)
        except Exception as error:  # a thread's end must be told
            log.exception("%s", self._thread.name)
            self.problem = str(error) or type(error).__name__
