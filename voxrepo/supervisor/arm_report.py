"""What a server says of its arms: rows and routes for the edge, statuses for the controller and for people."""

from __future__ import annotations

from collections.abc import Mapping

from voxrepo.repository.arms import arm_model_name
from voxrepo.rollout.plan import ArmStatus, Plan, PlannedVoice, ReplicaVoice
from voxrepo.rollout.route import Route
from voxrepo.supervisor.arm_policy import shown_arms
from voxrepo.supervisor.arm_record import ArmRecord
from voxrepo.supervisor.arm_table import ArmTable
from voxrepo.supervisor.state import ArmLine


def table_of(records: Mapping[str, ArmRecord], plan: Plan) -> ArmTable:
    """Rows of arms that are loaded as they are wanted, and routes among these."""
    arms, moving, routes = {}, {}, {}
    for name, record in records.items():
        wanted = plan.voices.get(name)
        arms.update(record.rows(wanted))
        row = record.moving_row()
        if row is not None:
            moving[name] = row
        route = _route(record, wanted)
        if route is not None:
            routes[name] = route
    draining = frozenset(name for name, record in records.items() if record.drain_since_s is not None)
    returning = frozenset(arm.name for record in records.values() for arm in record.returning.values())
    return ArmTable(arms, moving, routes, draining, returning & arms.keys())


def _route(record: ArmRecord, wanted: PlannedVoice | None) -> Route | None:
    if wanted is None or wanted.route is None:
        return None
    route = wanted.route
    named = {*route.weights, *route.labels.values(), route.shadow_arm, route.tiered_arm}
    named.add(route.overflow.arm if route.overflow is not None else None)
    missing = {arm for arm in named if arm is not None} - set(shown_arms(wanted, record.facts()))
    return route.without(missing) if missing else route


def absent_voice(wanted: PlannedVoice, *, is_known: bool) -> ReplicaVoice:
    """Status of a voice that is not served here.

    Args:
        wanted: of it.
        is_known: whether it is known not to be; else the engine has not loaded it yet.
    """
    reason = "the voice itself is not served here" if is_known else ""
    arms = {
        arm: ArmStatus(state="failed" if is_known else "loading", versions=versions, reason=reason)
        for arm, versions in wanted.arms.items()
    }
    return ReplicaVoice(stable={}, arms=arms, reason=reason)


def lines_of(voices: Mapping[str, ReplicaVoice]) -> list[ArmLine]:
    """For ``voxrepo status``."""
    return [
        ArmLine(name=arm_model_name(name, arm), state=one.state, versions=one.versions, reason=one.reason)
        for name, voice in voices.items()
        for arm, one in voice.arms.items()
    ]
