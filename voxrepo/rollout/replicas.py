"""What the servers of a root say about a rollout. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from voxrepo.rollout.plan import STATUS_LIMIT_S, ReplicaStatus, Versions
from voxrepo.rollout.state import Rollout


@dataclass(frozen=True)
class Replicas:
    """Servers that live, and the plan that they should have carried out.

    Attributes:
        living: those that gave a sign of life within :data:`STATUS_LIMIT_S`; one that is gone blocks nothing.
        generation: of the plan that first said what the rollout's present state asks for. What an older status says
            may be left from before.
    """

    living: tuple[ReplicaStatus, ...]
    generation: int = 0

    @classmethod
    def at(cls, statuses: Iterable[ReplicaStatus], now: float, generation: int) -> Replicas:
        """Those that live now, in order of their names."""
        living = [status for status in statuses if status.lives_at(now)]
        return cls(tuple(sorted(living, key=lambda status: status.name)), generation)

    def _is_settled(self, status: ReplicaStatus) -> bool:
        return status.generation >= self.generation

    def _is_believed(self, status: ReplicaStatus, rollout: Rollout) -> bool:
        """Whether a fault that it reports is of this state; at the latest if it still says so much later."""
        return self._is_settled(status) or status.updated_at >= rollout.state.since + STATUS_LIMIT_S

    def failed_arm(self, rollout: Rollout, *, were_ready: bool) -> str | None:
        """Why an arm is not served somewhere where it should be; None if that is nowhere so.

        Args:
            rollout: whose arms.
            were_ready: whether all arms have been ready in this state: a fault that is reported now is then new.
        """
        for status in self.living:
            voice = status.voices.get(rollout.spec.voice)
            for arm, versions in rollout.arms.items():
                found = None if voice is None else voice.arms.get(arm)
                if found is None or found.versions != versions:
                    continue
                is_out = found.state == "failed" or (found.state == "unloading" and found.reason)
                if is_out and (were_ready or self._is_believed(status, rollout)):
                    return f"{arm} on {status.name}: {found.reason or 'failed without a reason'}"
        return None

    def not_ready(self, rollout: Rollout, *, weights_too: bool = True) -> str | None:
        """Which server does not serve all arms yet as the plan says; None if all do and there is one at least.

        Args:
            rollout: whose arms.
            weights_too: whether it must have taken up the rest of the plan as well.
        """
        if not self.living:
            return "no server is alive"
        for status in self.living:
            voice = status.voices.get(rollout.spec.voice)
            for arm, versions in rollout.arms.items():
                found = None if voice is None else voice.arms.get(arm)
                if found is None or found.state != "ready" or found.versions != versions:
                    state = "not begun" if found is None else found.state
                    return f"{arm} on {status.name}: {state}"
            if weights_too and not self._is_settled(status):
                return f"{status.name}: has not taken up the plan's generation {self.generation} yet"
        return None

    def failed_stable(self, rollout: Rollout, versions: Versions) -> str | None:
        """Why a server could not move the voice to ``versions``; None if none failed."""
        for status in self.living:
            voice = status.voices.get(rollout.spec.voice)
            if voice is None or voice.stable == versions or not self._is_believed(status, rollout):
                continue
            if voice.reason:
                return f"{status.name}: {voice.reason}"
        return None

    def lost_candidate(self, rollout: Rollout, arm: str, versions: Versions) -> str | None:
        """Why the arm that is being promoted is gone on a server that has not moved yet; None if it is nowhere gone."""
        for status in self.living:
            voice = status.voices.get(rollout.spec.voice)
            found = None if voice is None else voice.arms.get(arm)
            if voice is None or voice.stable == versions or found is None or found.versions != versions:
                continue
            if found.state == "failed":
                return f"{arm} on {status.name}: {found.reason or 'failed without a reason'}"
        return None

    def not_moved(self, rollout: Rollout, versions: Versions, *, absent_is_moved: bool = False) -> str | None:
        """Which living server does not serve ``versions`` as the voice yet; None if all do.

        Args:
            rollout: whose voice.
            versions: stable versions.
            absent_is_moved: whether a server that has taken up the plan and does not serve the voice counts as moved:
                if it ever serves it again, then as ``voice.yaml`` pins it.
        """
        for status in self.living:
            if not self._is_settled(status):
                return f"{status.name}: has not taken up the plan's generation {self.generation} yet"
            voice = status.voices.get(rollout.spec.voice)
            if voice is None or not voice.stable:
                if not absent_is_moved:
                    return f"{status.name}: does not serve {rollout.spec.voice} yet"
            elif voice.stable != versions:
                why = f" ({voice.reason})" if voice.reason else ""
                return f"{status.name}: still serves the versions {_shown(voice.stable)}{why}"
        return None


def _shown(versions: Versions) -> str:
    return ", ".join(f"{stage} {version}" for stage, version in versions.items())
