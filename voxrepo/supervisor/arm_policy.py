"""What a server does next for a voice under a rollout: one action at a time. Pure.

The same question is asked again after every action, with the plan as it is by then, so that a plan that changes on the
way needs no special case. What is wanted, what is loaded and what the edge still uses are all that counts, as in the
aspired-versions policy of TensorFlow Serving.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from voxrepo.rollout.plan import PlannedVoice, Versions
from voxrepo.rollout.route import STABLE_ARM

BRIDGE_ARM = STABLE_ARM
"""Arm that is loaded for a change of the stable versions where no arm of the plan has them; no spec may name it so, and
it gets no row of its own."""

IsFree = Callable[[str, Versions], bool]
"""Whether every edge process goes by the newest table and none uses this ensemble with these versions any more."""


def ensemble_of(voice: str, arm: str) -> str:
    """The engine's model of an arm."""
    return f"{voice}.{arm}"


@dataclass(frozen=True)
class Failure:
    """Attributes:
    rollout: that wanted it.
    versions: that failed.
    reason: why.
    """

    rollout: str
    versions: Versions
    reason: str


@dataclass(frozen=True)
class Leaving:
    """Something that new requests do not use any more.

    Attributes:
        ensemble: the engine's model.
        versions: that it pins, or pinned.
        arm: whose it is; ``None`` for the voice's own ensemble, which stays, with other versions.
        since_s: on the clock of ``time.monotonic``.
        is_broken: requests that still use it fail anyway.
    """

    ensemble: str
    versions: Versions
    arm: str | None
    since_s: float
    is_broken: bool = False


@dataclass(frozen=True)
class Move:
    """The stable versions are about to change; meanwhile an arm with the new ones serves the voice's requests."""

    bridge: str
    old: Versions
    new: Versions


@dataclass(frozen=True)
class Facts:
    """What is in the engine for one voice.

    Attributes:
        voice: its name.
        stable: versions that its own ensemble pins.
        arms: versions of the arms that are loaded and have passed their probe.
        failures: arms that shall not be tried again, by name.
        stable_failure: the versions to which the voice could not be moved.
        leaving: what is to be unloaded as soon as nobody uses it.
        move: under way.
        loaded: versions of each stage in the engine.
    """

    voice: str
    stable: Versions
    arms: Mapping[str, Versions] = field(default_factory=dict)
    failures: Mapping[str, Failure] = field(default_factory=dict)
    stable_failure: Failure | None = None
    leaving: tuple[Leaving, ...] = ()
    move: Move | None = None
    loaded: Mapping[str, frozenset[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadArm:
    """Load an arm and let it speak. Takes time."""

    arm: str
    versions: Versions


@dataclass(frozen=True)
class Withdraw:
    """Take an arm from the table; at once."""

    arm: str


@dataclass(frozen=True)
class Release:
    """Unload what nobody uses any more. Takes time."""

    leaving: Leaving


@dataclass(frozen=True)
class StartMove:
    """Let an arm serve the voice's own requests; at once."""

    move: Move


@dataclass(frozen=True)
class DropMove:
    """Let the voice's own ensemble serve again, as the new versions are not wanted any more; at once."""


@dataclass(frozen=True)
class Swap:
    """Give the voice's own ensemble the new versions, and let it speak. Takes time."""

    move: Move


@dataclass(frozen=True)
class Replace:
    """Hold requests, unload the stable versions, load others. Takes time, and requests wait."""

    versions: Versions


Action = LoadArm | Withdraw | Release | StartMove | DropMove | Swap | Replace


def failure_of(wanted: PlannedVoice, facts: Facts, arm: str) -> Failure | None:
    """Why an arm that is wanted is not tried (again); ``None`` if it may be."""
    failure = facts.failures.get(arm)
    versions = wanted.stable if arm == BRIDGE_ARM else wanted.arms.get(arm)
    if failure is None or failure.rollout != wanted.rollout or failure.versions != versions:
        return None
    return failure


def stable_failed(wanted: PlannedVoice, facts: Facts) -> bool:
    """Whether the voice could not be given the versions that are wanted of it."""
    failure = facts.stable_failure
    return failure is not None and failure.rollout == wanted.rollout and failure.versions == wanted.stable


def shown_arms(wanted: PlannedVoice | None, facts: Facts) -> list[str]:
    """Arms that have a row in the edge's table: those that are loaded as they are wanted."""
    if wanted is None:
        return []
    return [arm for arm, versions in facts.arms.items() if arm != BRIDGE_ARM and wanted.arms.get(arm) == versions]


def next_action(wanted: PlannedVoice | None, facts: Facts, is_free: IsFree) -> Action | None:
    """The next thing to do; ``None`` if everything is as wanted, or has to wait for requests to end.

    Args:
        wanted: of the plan; ``None`` if no rollout concerns the voice, which then keeps its versions and has no arms.
        facts: what is there.
        is_free: about the edge.
    """
    if facts.move is not None:
        if wanted is not None and wanted.stable != facts.move.new:
            return DropMove()
        return Swap(facts.move) if is_free(facts.voice, facts.move.old) else None
    moves_to = None
    if wanted is not None and wanted.stable != facts.stable and not stable_failed(wanted, facts):
        moves_to = wanted.stable
    shown = shown_arms(wanted, facts)
    for arm, versions in facts.arms.items():
        if arm not in shown and versions != moves_to:
            return Withdraw(arm)
    for leaving in facts.leaving:
        if is_free(leaving.ensemble, leaving.versions):
            return Release(leaving)
    if wanted is None:
        return None
    bridges = sorted((arm for arm, has in facts.arms.items() if has == moves_to), key=lambda arm: arm not in shown)
    if moves_to is not None and bridges:
        return StartMove(Move(bridges[0], dict(facts.stable), dict(moves_to)))
    if moves_to is not None and wanted.resource_preserving:
        # other arms would be in the way of what it is for; one with these versions shows that there is room for it
        has_arms = facts.arms or any(leaving.arm is not None for leaving in facts.leaving)
        return None if has_arms else Replace(moves_to)
    return _next_load(wanted, facts, moves_to)


def _next_load(wanted: PlannedVoice, facts: Facts, moves_to: Versions | None) -> LoadArm | None:
    leaving = {leaving.arm for leaving in facts.leaving}
    missing = {
        arm: versions
        for arm, versions in wanted.arms.items()
        if arm not in facts.arms and failure_of(wanted, facts, arm) is None
    }
    if moves_to is not None and moves_to not in missing.values():
        missing = {BRIDGE_ARM: moves_to, **missing}
    for arm, versions in missing.items():
        if arm not in leaving:
            return LoadArm(arm, dict(versions))
    return None


def is_settled(wanted: PlannedVoice | None, facts: Facts) -> bool:
    """Whether the plan is carried out, as far as it can be: each arm is ready or has failed, and stable likewise.

    What is leaving does not count: no new request reaches it.
    """
    if facts.move is not None:
        return False
    if wanted is None:
        return not facts.arms
    return (wanted.stable == facts.stable or stable_failed(wanted, facts)) and all(
        facts.arms.get(arm) == versions or failure_of(wanted, facts, arm) is not None
        for arm, versions in wanted.arms.items()
    )


def needed_versions(wanted: PlannedVoice | None, facts: Facts, without: Leaving | None = None) -> dict[str, set[int]]:
    """Versions of each stage that must stay loaded.

    Args:
        wanted: what is loaded already and will be wanted in a moment stays, so that it is not loaded twice.
        facts: what is there.
        without: what is being released.
    """
    needed: dict[str, set[int]] = {stage: {version} for stage, version in facts.stable.items()}
    users: list[Versions] = [*facts.arms.values()]
    users += [leaving.versions for leaving in facts.leaving if leaving != without]
    if facts.move is not None:
        users += [facts.move.old, facts.move.new]
    for versions in users:
        _add(needed, versions)
    if wanted is not None:
        soon = [versions for arm, versions in wanted.arms.items() if failure_of(wanted, facts, arm) is None]
        if not stable_failed(wanted, facts) and not wanted.resource_preserving:
            soon.append(wanted.stable)
        for versions in soon:
            _add(needed, {s: v for s, v in versions.items() if v in facts.loaded.get(s, frozenset())})
    return needed


def _add(needed: dict[str, set[int]], versions: Mapping[str, int]) -> None:
    for stage, version in versions.items():
        needed.setdefault(stage, set()).add(version)


def only_of_arms(facts: Facts, stage: str, version: int) -> list[str] | None:
    """Arms that use a version of a stage which the voice itself does not; ``None`` if the voice does use it."""
    own: Iterable[Versions] = [facts.stable] if facts.move is None else [facts.stable, facts.move.old, facts.move.new]
    if any(versions.get(stage) == version for versions in own):
        return None
    return [arm for arm, versions in facts.arms.items() if versions.get(stage) == version]
