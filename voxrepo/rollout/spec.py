"""What an operator wants of a rollout: a YAML file, checked before anything changes.

    voice: en-joe
    arms:
      int8: {vocoder: 2}
    policy: {kind: canary, arm: int8}

The rest has defaults, see :mod:`voxrepo.rollout.defaults`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from voxrepo.rollout import defaults
from voxrepo.rollout.finite import FiniteModel, Seconds
from voxrepo.rollout.gate import Gate
from voxrepo.rollout.metric import METRICS, Source
from voxrepo.rollout.route import RESERVED_ARMS, STABLE_ARM, Overflow, Percent
from voxrepo_contract import yamlfile
from voxrepo_contract.names import VOICE_STAGES, is_model_name

_ARM_NAME = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9_-]{0,39}\Z")
MAX_ARMS = 8

Share = Annotated[float, Field(gt=0, le=100)]
Count = Annotated[int, Field(ge=1)]
ChangedVersions = Annotated[dict[str, Annotated[int, Field(ge=1, le=999_999_999)]], Field(min_length=1)]


class CanaryStep(FiniteModel):
    """Attributes:
    weight: percent of the voice's requests that the arm gets.
    hold_s: shortest time of the step, in seconds.
    min_requests: requests that the arm must have served in the step.
    """

    weight: Share
    hold_s: Seconds = defaults.HOLD_S
    min_requests: Count = defaults.MIN_REQUESTS


class CanaryPolicy(FiniteModel):
    """More and more requests for one arm, which then becomes the stable one.

    Attributes:
        arm: the candidate.
        steps: in order; each has more weight than the one before, so that no user is sent to and fro.
        then: after the last step: ``promote``, or ``wait`` for the command.
    """

    kind: Literal["canary"]
    arm: str
    steps: list[CanaryStep] = Field(
        default_factory=lambda: [CanaryStep(weight=weight) for weight in defaults.WEIGHTS], min_length=1, max_length=50
    )
    then: Literal["promote", "wait"] = "promote"

    @field_validator("steps")
    @classmethod
    def _grow(cls, steps: list[CanaryStep]) -> list[CanaryStep]:
        for before, after in pairwise(steps):
            if not after.weight > before.weight:
                raise ValueError(
                    f"the weight {after.weight:g} follows {before.weight:g}; each step must have more than the last"
                )
        return steps


class AbPolicy(FiniteModel):
    """Fixed shares for several arms until it is known which one is best.

    Attributes:
        weights: percent by arm. With ``stable`` among them they must sum to 100; without, it has the rest.
        min_requests: that each arm, the stable one included, must have served.
        duration_s: shortest time, in seconds.
        winner: metric by which the best arm is promoted, if it is better than the stable arm beyond chance; or
            ``manual``: wait for the command.
    """

    kind: Literal["ab"]
    weights: dict[str, Share] = Field(min_length=1)
    min_requests: Count = 1000
    duration_s: Seconds = 86_400.0
    winner: str = "manual"

    @model_validator(mode="after")
    def _sums(self) -> AbPolicy:
        total = sum(self.weights.values())
        if STABLE_ARM in self.weights and abs(total - 100) > 1e-6:
            raise ValueError(f"weights sum to {total:g} percent; with {STABLE_ARM!r} among them they must sum to 100")
        if total > 100 + 1e-6:
            raise ValueError(f"weights sum to {total:g} percent; at most 100, the rest is the stable arm's")
        if STABLE_ARM not in self.weights and total > 100 - 1e-6:
            raise ValueError("weights leave nothing for the stable arm, with which the others are compared")
        return self

    @field_validator("winner")
    @classmethod
    def _is_comparable(cls, winner: str) -> str:
        metric = METRICS.get(winner)
        if winner != "manual" and (metric is None or metric.better != "lower" or not metric.of_stable_too):
            fit = sorted(each.name for each in METRICS.values() if each.better == "lower" and each.of_stable_too)
            raise ValueError(f"a winner is found by 'manual' or one of: {', '.join(fit)}")
        return winner


class ShadowPolicy(FiniteModel):
    """Copies of requests for one arm, whose answers are compared and discarded. No user hears it.

    Attributes:
        arm: the candidate.
        percent: share of the stable arm's requests that are copied.
        min_pairs: pairs that must have been compared.
        then: ``promote``, or ``finish``: unload the arm and leave the report.
    """

    kind: Literal["shadow"]
    arm: str
    percent: Share = 10.0
    min_pairs: Count = 200
    then: Literal["promote", "finish"] = "finish"


class OverflowPolicy(Overflow):
    """A cheaper arm for requests that would wait too long; stays until a command ends it."""

    kind: Literal["overflow"]


class TieredPolicy(FiniteModel):
    """A faster vocoder for the first piece of each stream; stays until a command ends it."""

    kind: Literal["tiered"]
    arm: str


Policy = Annotated[CanaryPolicy | AbPolicy | ShadowPolicy | OverflowPolicy | TieredPolicy, Field(discriminator="kind")]


def arms_of(policy: Policy) -> list[str]:
    """Arms other than stable that a policy uses."""
    if isinstance(policy, AbPolicy):
        return [arm for arm in policy.weights if arm != STABLE_ARM]
    return [policy.arm]


class RolloutSpec(FiniteModel):
    """Attributes:
    voice: that it concerns.
    arms: by name, the stages whose versions differ from the voice's.
    policy: how requests are divided, and what follows.
    gates: limits that every arm must keep; those of :mod:`voxrepo.rollout.defaults` if left out, none if empty.
    pair_percent: share of the requests served by an arm with a weight that the stable arm speaks too, with the same
        seed, for comparison. They cost as much as other requests, at the lowest urgency.
    keep_previous_s: time for which the replaced versions stay loaded after a promotion, ready to be taken back.
    resource_preserving: for a device without memory for both: no arm is loaded beside the stable one, the policy's
        steps and the gates are passed over, the old versions are unloaded before the new ones are loaded, and
        requests wait meanwhile.
    """

    voice: str
    arms: dict[str, ChangedVersions] = Field(min_length=1, max_length=MAX_ARMS)
    policy: Policy
    gates: list[Gate] | None = None
    pair_percent: Percent | None = None
    keep_previous_s: Seconds = defaults.KEEP_PREVIOUS_S
    resource_preserving: bool = False

    @field_validator("voice")
    @classmethod
    def _is_a_name(cls, voice: str) -> str:
        if not is_model_name(voice):
            raise ValueError("is no name of a voice")
        return voice

    @field_validator("arms")
    @classmethod
    def _are_named(cls, arms: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
        for arm, versions in arms.items():
            if arm in RESERVED_ARMS:
                raise ValueError(f"{arm!r} is reserved; give the arm another name")
            if not _ARM_NAME.match(arm):
                raise ValueError(f"{arm!r} is no name of an arm: letters, digits, '_' and '-' only, at most 40")
            for stage in versions:
                if stage not in VOICE_STAGES:
                    raise ValueError(f"{arm}: unknown stage {stage!r}; a voice has {', '.join(VOICE_STAGES)}")
        return arms

    @model_validator(mode="after")
    def _fits_together(self) -> RolloutSpec:
        used = arms_of(self.policy)
        for arm in used:
            if arm not in self.arms:
                raise ValueError(f"policy: the arm {arm!r} is not among arms ({', '.join(self.arms)})")
        if idle := [arm for arm in self.arms if arm not in used]:
            raise ValueError(f"arms: {', '.join(idle)}: the policy {self.policy.kind!r} does not use it; remove it")
        if self.pair_percent and not isinstance(self.policy, CanaryPolicy | AbPolicy):
            raise ValueError(f"pair_percent: the policy {self.policy.kind!r} makes no such pairs; remove it")
        if self.resource_preserving and not isinstance(self.policy, CanaryPolicy):
            raise ValueError("resource_preserving: only the policy 'canary' can do without loading both")
        if isinstance(self.policy, TieredPolicy) and set(self.arms[self.policy.arm]) != {"vocoder"}:
            raise ValueError(
                f"arms: {self.policy.arm}: in the policy 'tiered' only the vocoder may differ, since both make "
                "pieces of the same features"
            )
        self._gates_can_be_observed()
        return self

    def _gates_can_be_observed(self) -> None:
        sources = self.sources
        wanted = [gate.metric for gate in self.gates or []]
        if isinstance(self.policy, AbPolicy) and self.policy.winner != "manual":
            wanted.append(self.policy.winner)
        for metric in wanted:
            source = METRICS[metric].source
            if source in sources and not (isinstance(self.policy, TieredPolicy) and source == "requests"):
                continue
            if isinstance(self.policy, TieredPolicy) and metric == "error_ratio":
                continue
            why = "its arm gets no such requests" if source != "pairs" else "no request is spoken by both arms"
            help_ = (
                "; set pair_percent" if source == "pairs" and isinstance(self.policy, CanaryPolicy | AbPolicy) else ""
            )
            raise ValueError(f"gates: {metric} cannot be observed by the policy {self.policy.kind!r}: {why}{help_}")

    @property
    def pairs_percent(self) -> float:
        """``pair_percent`` or its default for the policy."""
        if self.pair_percent is not None:
            return self.pair_percent
        return defaults.PAIR_PERCENT if isinstance(self.policy, CanaryPolicy | AbPolicy) else 0.0

    @property
    def sources(self) -> frozenset[Source]:
        """What the policy lets one observe of its arms."""
        if isinstance(self.policy, ShadowPolicy):
            return frozenset({"requests", "pairs"})  # copies of streams go the unary way
        if isinstance(self.policy, TieredPolicy):
            return frozenset({"requests", "streams"})
        if isinstance(self.policy, OverflowPolicy) or not self.pairs_percent:
            return frozenset({"requests", "streams"})
        return frozenset({"requests", "streams", "pairs"})

    @property
    def judged_gates(self) -> list[Gate]:
        """The gates, or the default ones."""
        if self.gates is not None:
            return self.gates
        return defaults.default_gates(self.policy.kind, pairs="pairs" in self.sources)

    def arm_versions(self, stable: Mapping[str, int]) -> dict[str, dict[str, int]]:
        """Versions of all stages by arm, given those of the stable arm."""
        return {arm: {**stable, **changed} for arm, changed in self.arms.items()}


def read_spec(file: Path) -> RolloutSpec:
    """Read a spec.

    Raises:
        ConfigError: with file and line.
    """
    return yamlfile.read(file, RolloutSpec)


def parse_spec(text: str, file: Path = Path("rollout.yaml")) -> RolloutSpec:
    """Read a spec from its text.

    Raises:
        ConfigError: with file and line.
    """
    return yamlfile.parse(text, RolloutSpec, file)
