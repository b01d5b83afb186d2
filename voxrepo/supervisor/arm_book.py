"""What is known of the arms in the engine, and what follows for them if something of it dies."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from voxrepo.repository.arms import arm_model_name, check_arm
from voxrepo.repository.cpu_plan import usable_cores
from voxrepo.repository.layout import Layout
from voxrepo.repository.publish import publish_voice
from voxrepo.repository.voice import VoiceSpec
from voxrepo.rollout.plan import PlannedVoice, Versions
from voxrepo.supervisor.arm_change import Change, EngineFacts
from voxrepo.supervisor.arm_guard import Fate
from voxrepo.supervisor.arm_policy import (
    BRIDGE_ARM,
    Facts,
    Failure,
    LoadArm,
    Replace,
    is_settled,
    only_of_arms,
    stable_failed,
)
from voxrepo.supervisor.arm_record import ArmRecord
from voxrepo.supervisor.arm_report import table_of
from voxrepo.supervisor.board import Board
from voxrepo.supervisor.left_voices import LeftVoices
from voxrepo.supervisor.plan_follower import PlanFollower
from voxrepo.supervisor.stub_watch import Stub
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.names import VOICE_STAGES

log = logging.getLogger(__name__)


class ArmBook:
    """All arms of one server; an :class:`voxrepo.supervisor.arm_guard.ArmGuard`. Belongs to the main thread.

    Args:
        layout: of the root.
        board: told of rows and routes.
        follower: of the plan.
    """

    def __init__(self, layout: Layout, board: Board, follower: PlanFollower) -> None:
        self._layout = layout
        self._board = board
        self._follower = follower
        self._left = LeftVoices(layout)
        self._records: dict[str, ArmRecord] = {}
        self._engine: EngineFacts | None = None
        self._change: Change | None = None
        self._now_s = 0.0

    def _wanted(self, voice: str) -> PlannedVoice | None:
        return self._follower.plan.voices.get(voice) or self._left.wanted.get(voice)

    def _publish(self) -> None:
        table = table_of(self._records, self._follower.plan)
        if table != self._board.arms:
            self._board.arms = table
            self._board.publish()

    def _fail(self, record: ArmRecord, wanted: PlannedVoice, arm: str, versions: Versions, reason: str) -> None:
        log.error("%s is not served: %s", arm_model_name(record.name, arm), reason)
        record.fail(wanted, arm, versions, reason)

    def _take_stock(self) -> None:
        """Keep a record of every voice that the plan names or named, or that has something of it in the engine."""
        for name in (*self._follower.plan.voices, *self._left.wanted):
            voice = self._board.inventory.voices.get(name)
            if name not in self._records and voice is not None:
                self._records[name] = ArmRecord(voice)
        for name, record in list(self._records.items()):
            if name in self._left.wanted and is_settled(self._left.wanted[name], record.facts()):
                self._left.forget(name)
            wanted = self._wanted(name)
            record.still_returning(wanted, self._now_s)
            if not self._board.is_served(name) and (record.arms or record.leaving):
                self._lose_voice(record, wanted)
            is_changing = self._change is not None and self._change.record is record
            is_idle = not is_changing and not (record.arms or record.leaving or record.move)
            # one that is not served is tried again without arms, which only its record knows
            if wanted is None and is_idle and self._board.is_served(name):
                del self._records[name]

    def _lose_voice(self, record: ArmRecord, wanted: PlannedVoice | None) -> None:
        """Its stages are unloaded by whoever gave the voice up."""
        if self._engine is not None and wanted is not None:
            for arm in record.arms:
                self._fail(record, wanted, arm, record.arms[arm].versions, "the voice itself is not served any more")
        record.forget_engine()

    def _try_anew(self, now_s: float) -> None:
        """Have voices that were given up tried with the versions that are wanted of them, if these are others."""
        for name, record in self._records.items():
            wanted, versions = self._wanted(name), record.voice.spec.versions
            if self._engine is None or wanted is None or wanted.stable == versions or self._board.is_served(name):
                continue
            if self._engine.is_tried(name) or stable_failed(wanted, record.facts()):
                continue
            try:
                voice = check_arm(self._layout, record.voice, BRIDGE_ARM, wanted.stable).as_voice()
            except ConfigError as error:
                log.error("%s keeps the versions %s: %s", name, versions, error)
                record.stable_failure = Failure(wanted.rollout, dict(wanted.stable), str(error))
                continue
            log.warning("%s, which is not served with %s, is tried with %s", name, versions, wanted.stable)
            record.voice = voice
            record.forget_engine()
            self._engine.try_again(voice, now_s)

    def fate(self, stub: Stub) -> Fate:
        """See :class:`voxrepo.supervisor.arm_guard.ArmGuard`."""
        found = self._stage_of(stub.model)
        if found is None:
            return "cure"
        voice, stage = found
        record = self._records.get(voice)
        change = self._change if self._change is not None and self._change.record is record else None
        if change is not None and isinstance(change.action, Replace):
            # only the stages that differ are taken out
            is_exchanged = change.action.versions[stage] != change.standing.voice.spec.versions[stage]
            return "ignore" if is_exchanged else "cure"
        if stub.version is None:
            # it ended before it could say what it was: what is being loaded, as all others have said it long ago
            return "ignore" if change is not None and isinstance(change.action, LoadArm) else "cure"
        # the last stubs of a rollout may end after everything else of it
        facts = Facts(voice, self._board.inventory.voices[voice].spec.versions) if record is None else record.facts()
        arms = only_of_arms(facts, stage, stub.version)
        if arms is None:
            return "cure"
        return "arm" if arms else "ignore"

    def died(self, stub: Stub, cause: str) -> None:
        """See :class:`voxrepo.supervisor.arm_guard.ArmGuard`."""
        found = self._stage_of(stub.model)
        record = self._records.get(found[0]) if found is not None else None
        if found is None or record is None or stub.version is None:
            return
        stage = found[1]
        wanted = self._wanted(record.name)
        reason = f"the process of its {stage} version {stub.version} died" + (f" ({cause})" if cause else "")
        for arm in only_of_arms(record.facts(), stage, stub.version) or []:
            if wanted is not None:
                self._fail(record, wanted, arm, record.arms[arm].versions, reason)
            record.withdraw(arm, self._now_s, is_broken=True)
        self._publish()

    def cured_with(self, voices: Collection[str]) -> Mapping[str, VoiceSpec]:
        """See :class:`voxrepo.supervisor.arm_guard.ArmGuard`."""
        if self._change is not None and self._change.record.name in voices:
            self._change.is_disturbed = True
        return {
            checked.name: checked.as_voice().spec
            for name in voices
            if name in self._records
            for checked in self._records[name].arms.values()
        }

    def publisher(self, voices: Collection[str]) -> Callable[[], None]:
        """See :class:`voxrepo.supervisor.arm_guard.ArmGuard`."""
        standings = [self._records[name].standing(self._wanted(name)) for name in voices if name in self._records]
        inventory = self._board.inventory.voices
        others = [inventory[name] for name in voices if name not in self._records and name in inventory]

        def publish() -> None:
            for voice in others:
                publish_voice(self._layout, voice, {}, usable_cores())
            for standing in standings:
                publish_voice(self._layout, standing.voice, standing.arms, usable_cores(), keep=standing.needed)

        return publish

    def lost(self, ensembles: Mapping[str, str]) -> None:
        """See :class:`voxrepo.supervisor.arm_guard.ArmGuard`."""
        for record in self._records.values():
            wanted = self._wanted(record.name)
            for arm, checked in list(record.arms.items()):
                if checked.name in ensembles and (record.move is None or record.move.bridge != arm):
                    if wanted is not None:
                        self._fail(record, wanted, arm, checked.versions, ensembles[checked.name])
                    record.withdraw(arm, self._now_s, is_broken=True)
        self._publish()

    def _stage_of(self, model: str) -> tuple[str, str] | None:
        """The voice and the stage of an engine's model; ``None`` if it is no voice's."""
        voice, _, stage = model.rpartition(".")
        if stage not in VOICE_STAGES or not (voice in self._records or voice in self._board.inventory.voices):
            return None
        return voice, stage
