"""One operation on the engine for an arm, from its begin to its end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from voxrepo.repository.arms import arm_model_name
from voxrepo.repository.check import CheckedVoice
from voxrepo.repository.cpu_plan import usable_cores
from voxrepo.repository.layout import Layout
from voxrepo.rollout.plan import PlannedVoice, Versions
from voxrepo.supervisor.arm_memory import Memory, free_bytes
from voxrepo.supervisor.arm_policy import Action, LoadArm, Release, Replace, Swap
from voxrepo.supervisor.arm_record import ArmRecord
from voxrepo.supervisor.arm_work import ArmRun, ArmWork, Standing
from voxrepo_contract.names import stage_model_name

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EngineFacts:
    """What must be known of the engine and its watch; kept by whoever runs it.

    Attributes:
        target: its gRPC address.
        held_bytes: by the stubs of one version of a model.
        memory_left_bytes: below the engine's own limit; ``None`` if it has none.
        new_stubs: called when something was loaded, so that its stubs are seen before they can die.
        voice_moved: called when a voice has other versions.
        released: called with a model, those of its versions that were unloaded, and the time.
        is_tried: whether a voice that was given up is being tried again at this moment.
        try_again: called with a voice that was given up, to be tried with these versions as soon as may be.
    """

    target: str
    held_bytes: Callable[[str, int], int]
    memory_left_bytes: Callable[[], int | None]
    new_stubs: Callable[[], None]
    voice_moved: Callable[[CheckedVoice], None]
    released: Callable[[str, Collection[int], float], None]
    is_tried: Callable[[str], bool]
    try_again: Callable[[CheckedVoice, float], None]


@dataclass
class Change:
    """An operation under way.

    Attributes:
        action: what is done.
        record: of the voice that it concerns.
        wanted: of the voice, when it was begun.
        standing: of the voice, likewise.
        given_up: to be set when its engine is gone.
        run: its thread.
        is_disturbed: whether its voice was recovered meanwhile, so that a failure says nothing.
    """

    action: Action
    record: ArmRecord
    wanted: PlannedVoice | None
    standing: Standing
    given_up: threading.Event
    run: ArmRun
    is_disturbed: bool = False

    @property
    def new_stable(self) -> Versions | None:
        """Versions that the voice itself is given; ``None`` if it keeps its own."""
        if isinstance(self.action, Swap):
            return self.action.move.new
        return self.action.versions if isinstance(self.action, Replace) else None


def begin(
    action: Action,
    record: ArmRecord,
    wanted: PlannedVoice | None,
    engine: EngineFacts,
    layout: Layout,
    load_timeout_s: float,
) -> Change:
    """Begin an operation that takes time, in a thread of its own.

    Args:
        action: what is to be done.
        record: of the voice.
        wanted: of the voice.
        engine: to which it is done.
        layout: of the root.
        load_timeout_s: for each load.
    """
    standing = record.standing(wanted, action.leaving if isinstance(action, Release) else None)
    given_up = threading.Event()
    served = {
        (stage_model_name(record.name, stage), version): engine.held_bytes(
            stage_model_name(record.name, stage), version
        )
        for stage, version in standing.voice.spec.versions.items()
    }
    memory = Memory(partial(_least, engine.memory_left_bytes()), lambda model, version: served.get((model, version), 0))
    work = ArmWork(layout, engine.target, usable_cores(), load_timeout_s, memory, given_up.is_set)
    operation: Callable[[], object]
    if isinstance(action, LoadArm):
        what = f"loading {arm_model_name(record.name, action.arm)}"
        operation = partial(work.load_arm, standing, action.arm, action.versions)
    elif isinstance(action, Release):
        what = f"unloading {action.leaving.ensemble} {action.leaving.versions}"
        operation = partial(work.release, standing, action.leaving.arm)
    elif isinstance(action, Swap):
        what = f"giving {record.name} {action.move.new}"
        operation = partial(work.swap, standing, record.arms[action.move.bridge].as_voice())
    else:
        assert isinstance(action, Replace)
        what = f"giving {record.name} {action.versions}"
        operation = partial(work.replace, standing, action.versions)
    log.info("%s", what)
    return Change(action, record, wanted, standing, given_up, ArmRun(what, operation))


def _least(left: int | None) -> int:
    return free_bytes() if left is None else min(free_bytes(), left)
