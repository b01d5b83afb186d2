"""What a server remembers of one voice under a rollout."""

from __future__ import annotations

from dataclasses import dataclass, field

from voxrepo.edge.table import VoiceEntry
from voxrepo.repository.arms import CheckedArm, arm_model_name
from voxrepo.repository.check import CheckedVoice
from voxrepo.rollout.plan import ArmStatus, PlannedVoice, ReplicaVoice, Versions
from voxrepo.supervisor.arm_policy import Facts, Failure, Leaving, Move, failure_of, needed_versions, shown_arms
from voxrepo.supervisor.arm_work import Standing
from voxrepo.supervisor.loader import voice_entry

RETRY_S = 5.0
"""After a release that the engine refused."""
RETURN_LIMIT_S = 25.0
"""For an arm to be loaded again after the engine was lost; requests for it wait for half a minute at most."""


@dataclass
class ArmRecord:
    """One voice's.

    Attributes:
        voice: as its own ensemble has it.
        arms: that are loaded and have passed their probe.
        loaded_at_s: when each was, on the clock of ``time.monotonic``.
        failures: by arm, why it is not tried again.
        stable_failure: why the voice was not moved.
        leaving: what is to be unloaded.
        move: under way.
        move_since_s: when it began.
        loaded: versions of each stage in the engine.
        drain_since_s: since when only requests that had begun go on, before an exchange of versions; ``None`` if there
            is none.
        is_held: whether not even these go on.
        not_before_s: for the next attempt at a release.
        offered: arms by whose rows the edge goes.
        returning: arms that the engine has lost and is to have again; their requests wait.
        lost_at_s: when it lost them.
    """

    voice: CheckedVoice
    arms: dict[str, CheckedArm] = field(default_factory=dict)
    loaded_at_s: dict[str, float] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    stable_failure: Failure | None = None
    leaving: tuple[Leaving, ...] = ()
    move: Move | None = None
    move_since_s: float = 0.0
    loaded: dict[str, frozenset[int]] = field(default_factory=dict)
    drain_since_s: float | None = None
    is_held: bool = False
    not_before_s: float = 0.0
    offered: set[str] = field(default_factory=set)
    returning: dict[str, CheckedArm] = field(default_factory=dict)
    lost_at_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.loaded:
            self.forget_engine()

    @property
    def name(self) -> str:
        """Of the voice."""
        return self.voice.spec.voice

    def facts(self) -> Facts:
        """For the policy."""
        return Facts(
            voice=self.name,
            stable=self.voice.spec.versions,
            arms={arm: checked.versions for arm, checked in self.arms.items()},
            failures=self.failures,
            stable_failure=self.stable_failure,
            leaving=self.leaving,
            move=self.move,
            loaded=self.loaded,
        )

    def standing(self, wanted: PlannedVoice | None, without: Leaving | None = None) -> Standing:
        """For an operation.

        Args:
            wanted: by the plan.
            without: what is being released.
        """
        facts = self.facts()
        arms = {**facts.arms}
        arms |= {one.arm: one.versions for one in self.leaving if one.arm is not None and one != without}
        return Standing(self.voice, arms, needed_versions(wanted, facts, without), self.loaded)

    def forget_engine(self) -> None:
        """The engine has, or will have, nothing but what the voice itself pins."""
        self.arms = {}
        self.loaded_at_s = {}
        self.leaving = ()
        self.move = None
        self.let_go_on()
        self.loaded = {stage: frozenset({version}) for stage, version in self.voice.spec.versions.items()}

    def lose_engine(self, wanted: PlannedVoice | None, now_s: float) -> None:
        """The engine is gone; what it had of arms is loaded again as soon as there is one."""
        lost = {arm: self.arms[arm] for arm in shown_arms(wanted, self.facts())}
        if lost:
            self.returning, self.lost_at_s = lost, now_s
        self.forget_engine()

    def still_returning(self, wanted: PlannedVoice | None, now_s: float) -> None:
        """Wait no more for arms that are there, are not wanted any more, have failed, or take too long."""
        if self.returning and (wanted is None or now_s - self.lost_at_s >= RETURN_LIMIT_S):
            self.returning = {}
        if wanted is not None:
            facts = self.facts()
            self.returning = {
                arm: checked
                for arm, checked in self.returning.items()
                if arm not in self.arms
                and wanted.arms.get(arm) == checked.versions
                and failure_of(wanted, facts, arm) is None
            }

    @property
    def is_draining(self) -> bool:
        """Whether only requests that had begun go on, or not even these."""
        return self.drain_since_s is not None

    def let_go_on(self) -> None:
        """Requests wait no more."""
        self.drain_since_s, self.is_held = None, False

    def withdraw(self, arm: str, now_s: float, *, is_broken: bool = False) -> None:
        """Offer an arm no more."""
        checked = self.arms.pop(arm)
        self.loaded_at_s.pop(arm, None)
        self.leaving += (Leaving(checked.name, checked.versions, arm, now_s, is_broken),)

    def fail(self, wanted: PlannedVoice, arm: str, versions: Versions, reason: str) -> None:
        """Do not try an arm again, as long as the rollout wants the same of it."""
        self.failures[arm] = Failure(wanted.rollout, dict(versions), reason)

    def moved(self, voice: CheckedVoice, now_s: float) -> None:
        """The voice's own ensemble pins other versions."""
        old = self.voice.spec.versions
        self.voice = voice
        self.move = None
        self.leaving += (Leaving(self.name, old, None, now_s),)

    def adds(self, versions: Versions) -> None:
        """These are loaded."""
        self.loaded = {stage: self.loaded[stage] | {version} for stage, version in versions.items()}

    def released(self, leaving: Leaving, standing: Standing) -> None:
        """The engine has unloaded what is not needed."""
        self.leaving = tuple(one for one in self.leaving if one != leaving)
        self.loaded = {stage: loaded & standing.needed[stage] for stage, loaded in self.loaded.items()}

    def note_offered(self, wanted: PlannedVoice | None, *, is_taken: bool) -> None:
        """Take in whether every edge process goes by the newest table; one that starts anew takes nothing back."""
        shown = set(shown_arms(wanted, self.facts()))
        self.offered = shown if is_taken else self.offered & shown

    def rows(self, wanted: PlannedVoice | None) -> dict[str, VoiceEntry]:
        """Rows of the arms that are offered, or will be again in a moment, by name of their ensemble."""
        shown = [self.arms[arm] for arm in shown_arms(wanted, self.facts())]
        return {checked.name: arm_entry(checked) for checked in (*shown, *self.returning.values())}

    def moving_row(self) -> VoiceEntry | None:
        """The voice's row while an arm serves for it."""
        if self.move is None:
            return None
        bridge = self.arms[self.move.bridge]
        return voice_entry(bridge.as_voice()).model_copy(update={"engine_model": bridge.name})

    def status(self, wanted: PlannedVoice) -> ReplicaVoice:
        """What the controller is told."""
        facts = self.facts()
        statuses = {}
        for arm, versions in wanted.arms.items():
            failure = failure_of(wanted, facts, arm)
            if failure is not None:
                statuses[arm] = ArmStatus(state="failed", versions=versions, reason=failure.reason)
            else:
                statuses[arm] = ArmStatus(state="ready" if arm in self.offered else "loading", versions=versions)
        for leaving in self.leaving:
            if leaving.arm is not None and leaving.arm not in wanted.arms:
                statuses[leaving.arm] = ArmStatus(state="unloading", versions=leaving.versions)
        failure = self.stable_failure
        is_of_now = failure is not None and (failure.rollout, failure.versions) == (wanted.rollout, wanted.stable)
        return ReplicaVoice(
            stable=facts.stable, arms=statuses, reason=failure.reason if failure is not None and is_of_now else ""
        )


def arm_entry(checked: CheckedArm) -> VoiceEntry:
    """The row of an arm."""
    voice = checked.voice.spec.voice
    return voice_entry(checked.as_voice()).model_copy(
        update={"name": arm_model_name(voice, checked.arm), "arm": checked.arm, "voice": voice}
    )
