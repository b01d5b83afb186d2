"""How requests for a voice are divided among its arms. Written by the controller, followed by every edge process."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from voxrepo.rollout.finite import FiniteModel
from voxrepo_contract.names import STREAM_SUFFIX, VOICE_STAGES

STABLE_ARM = "stable"
"""The arm that ``voice.yaml`` pins; it exists without any rollout."""
PREVIOUS_ARM = "previous"
"""What was stable before the last promotion, as long as it is kept loaded."""
CANARY_LABEL = "canary"
"""Label of the arm that a rollout wants to promote."""

RESERVED_ARMS = frozenset({STABLE_ARM, PREVIOUS_ARM, CANARY_LABEL, STREAM_SUFFIX.removeprefix("."), *VOICE_STAGES})
"""Names that no spec may give to an arm."""

Percent = Annotated[float, Field(ge=0, le=100)]
PolicyName = Literal["canary", "ab", "shadow", "overflow", "tiered"]


class Overflow(FiniteModel):
    """Load above which new requests go to a cheaper arm, and the one below which they come back.

    Attributes:
        arm: the cheaper arm.
        above_wait_s: predicted wait of a new request in the stable arm's line above which it is sent to ``arm``.
        below_wait_s: predicted wait below which requests go to the stable arm again; less than ``above_wait_s``.
    """

    arm: str
    above_wait_s: Annotated[float, Field(gt=0)]
    below_wait_s: Annotated[float, Field(ge=0)]

    @model_validator(mode="after")
    def _has_hysteresis(self) -> Overflow:
        if not self.below_wait_s < self.above_wait_s:
            raise ValueError(f"below_wait_s {self.below_wait_s:g} must be less than above_wait_s {self.above_wait_s:g}")
        return self


class Route(FiniteModel):
    """Attributes:
    rollout: id of the rollout; salt of the assignment, so that two rollouts divide users independently.
    policy: of the rollout.
    weights: percent of the requests by arm other than stable; the rest is stable's. Empty for ``shadow``,
        ``overflow`` and ``tiered``.
    labels: further names by which the parameter ``arm`` may name an arm (``canary``, ``previous``).
    shadow_arm: arm that gets copies of requests which the stable arm serves; their audio is compared and discarded.
    shadow_percent: share of the stable arm's requests that are copied to ``shadow_arm``.
    pair_percent: share of the requests served by an arm with a weight that are copied to the stable arm, with the
        same seed, to be compared.
    overflow: for that policy.
    tiered_arm: arm that makes the first piece of each stream, the stable arm makes the rest.
    """

    rollout: str
    policy: PolicyName
    weights: dict[str, Percent] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    shadow_arm: str | None = None
    shadow_percent: Percent = 0.0
    pair_percent: Percent = 0.0
    overflow: Overflow | None = None
    tiered_arm: str | None = None

    @model_validator(mode="after")
    def _leaves_a_rest(self) -> Route:
        total = sum(self.weights.values())
        if total > 100.0 + 1e-9:
            raise ValueError(f"weights sum to {total:g} percent; at most 100, the rest is the stable arm's")
        if STABLE_ARM in self.weights:
            raise ValueError("weights: the stable arm has what the others leave; do not name it")
        return self

    def without(self, missing: set[str]) -> Route | None:
        """The route without arms that are not served here; None if nothing is left of it.

        What those arms would have had goes to the stable arm.
        """
        changed = self.model_copy(
            update={
                "weights": {arm: weight for arm, weight in self.weights.items() if arm not in missing},
                "labels": {label: arm for label, arm in self.labels.items() if arm not in missing},
                "shadow_arm": None if self.shadow_arm in missing else self.shadow_arm,
                "overflow": None if self.overflow is not None and self.overflow.arm in missing else self.overflow,
                "tiered_arm": None if self.tiered_arm in missing else self.tiered_arm,
            }
        )
        has_any = changed.weights or changed.shadow_arm or changed.overflow or changed.tiered_arm or changed.labels
        return changed if has_any else None
