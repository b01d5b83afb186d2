"""What is known of the arms in the engine, and what follows for them if something of it dies."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from voxrepo.repository.arms import arm_model_name
from voxrepo.repository.cpu_plan import usable_cores
from voxrepo.repository.layout import Layout
from voxrepo.repository.publish import publish_voice
from voxrepo.repository.voice import VoiceSpec
from voxrepo.rollout.plan import PlannedVoice, Versions
from voxrepo.supervisor.arm_change import Change
from voxrepo.supervisor.arm_guard import Fate
from voxrepo.supervisor.arm_policy import Facts, LoadArm, Replace, only_of_arms
from voxrepo.supervisor.arm_record import ArmRecord
from voxrepo.supervisor.arm_report import table_of
from voxrepo.supervisor.board import Board
from voxrepo.supervisor.left_voices import LeftVoices
from voxrepo.supervisor.plan_follower import PlanFollower
from voxrepo.supervisor.stub_watch import Stub
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

    def fate(self, stub: Stub) -> Fate:
        """See :class:`voxrepo.supervisor.arm_guard.ArmGuard`."""
        found = self._stage_of(stub.model)
        if found is None:
            return "cure"
        voice, stage = found
        record = self._records.get(voice)
        change = self._change if self._change is not None and self._change.record is record else None
        if change is not None and isinstance(change.action, Replace):
            return "ignore"
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

        def publish() -> None:
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
