"""How rollouts are shown in a terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from voxrepo.rollout.gates import GateVerdict
from voxrepo.rollout.metric import METRICS
from voxrepo.rollout.overview import NO_CONTROLLER, EventView, ReplicaView, RolloutOverview
from voxrepo.rollout.route import STABLE_ARM
from voxrepo.rollout.state import Rollout

BAR_CELLS = 24
PHASE_STYLES = {
    "done": "bold green",
    "rolled_back": "bold red",
    "refused": "bold red",
    "aborting": "red",
    "paused": "yellow",
    "running": "bold cyan",
}
VERDICT_STYLES = {"pass": "green", "fail": "bold red", "inconclusive": "yellow"}


def clock(at: float) -> str:
    """A moment, local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def duration(seconds: float) -> str:
    """A length of time in two units at most."""
    whole = max(0, round(seconds))
    for unit, size, below, smaller in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit} {rest} {below}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def number(value: float | None) -> str:
    """Three digits that count; nothing of nothing."""
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def versions_in_words(versions: Mapping[str, int], stable: Mapping[str, int]) -> str:
    """The stages that differ from the stable arm's, or all if none does."""
    changed = {stage: version for stage, version in versions.items() if stable.get(stage) != version}
    return ", ".join(f"{stage} {version}" for stage, version in (changed or versions).items())


def phase_in_words(view: RolloutOverview) -> str:
    """The phase, with the step of a canary."""
    text = view.phase.replace("_", " ")
    if view.resume_to is not None:
        text += f" (was {view.resume_to.replace('_', ' ')})"
    return text if view.step is None else f"{text}, step {view.step} of {view.steps}"


def event_line(event: EventView) -> str:
    """An event in one line."""
    moved = event.from_phase != event.to_phase
    what = f"{event.from_phase} -> {event.to_phase}" if moved else event.kind
    return f"{clock(event.at)} {what.replace('_', ' ')}: {event.reason}"


def summary_line(view: RolloutOverview) -> str:
    """All that matters in one line, for where no picture can be drawn."""
    parts = [phase_in_words(view)]
    if view.weights:
        parts.append(", ".join(f"{arm} {weight:g} %" for arm, weight in view.weights.items()))
    if view.judgement is not None and not view.is_final:
        counts = {
            name: sum(each.verdict == name for each in view.judgement.verdicts if not each.dry_run)
            for name in ("pass", "fail", "inconclusive")
        }
        parts.append("gates: " + ", ".join(f"{count} {name}" for name, count in counts.items() if count))
    if view.waiting:
        parts.append(view.waiting)
    return "; ".join(part for part in parts if not part.endswith("gates: "))


def picture(view: RolloutOverview, controller: str | None, now: float) -> RenderableType:
    """Everything that is known of a rollout now."""
    parts: list[RenderableType] = [_heading(view, controller, now), _arms_table(view)]
    if view.replicas:
        parts.append(_replicas_table(view.replicas))
    if view.judgement is not None and view.judgement.verdicts:
        parts.append(gates_table(view.judgement.verdicts))
    if view.events:
        parts.append(Text("\n".join(event_line(event) for event in view.events)))
    return Group(*parts)


def _heading(view: RolloutOverview, controller: str | None, now: float) -> Text:
    text = Text.assemble(
        (view.voice, "bold"),
        f"  {view.policy}  {view.id}  ",
        (phase_in_words(view), PHASE_STYLES.get(view.phase, "bold")),
        f"  since {clock(view.since)} ({duration(now - view.since)})",
    )
    if view.reason:
        text.append(f"\n{view.reason}")
    if view.waiting and not view.is_final:
        text.append(f"\nwaiting: {view.waiting}")
    if view.commands:
        text.append(f"\nnot carried out yet: {'; '.join(view.commands)}", "yellow")
    if not view.is_final:
        if controller is None:
            text.append(f"\n{NO_CONTROLLER}", "bold red")
        else:
            text.append(f"\ncontroller: {controller}", "dim")
    return text


def _arms_table(view: RolloutOverview) -> Table:
    table = Table("arm", "versions")
    table.add_column("share", justify="right")
    table.add_column("", no_wrap=True)
    table.add_column("requests", justify="right")
    table.add_column("pairs", justify="right")
    judgement = view.judgement
    requests = {} if judgement is None else judgement.requests
    pairs = {} if judgement is None else judgement.pairs
    for arm, versions in {STABLE_ARM: view.stable, **view.arms}.items():
        weight = view.weights.get(arm)
        label = f"{arm} (becomes stable)" if arm == view.promoted and not view.is_final else arm
        if arm == view.promoted and view.phase == "done":
            label = f"{arm} (stable now)"
        table.add_row(
            Text(label),
            versions_in_words(versions, {} if arm == STABLE_ARM else view.stable),
            "" if weight is None else f"{weight:g} %",
            "" if weight is None else Text("█" * round(weight * BAR_CELLS / 100), "cyan"),
            str(requests.get(arm, "")),
            str(pairs.get(arm, "")),
        )
    return table


def _replicas_table(replicas: Sequence[ReplicaView]) -> Table:
    table = Table("server", "stable", "arms", "seen")
    for replica in replicas:
        arms = "\n".join(f"{arm}: {state}" for arm, state in replica.arms.items())
        seen = f"{duration(replica.age_s)} ago" if replica.lives else f"gone, {duration(replica.age_s)} ago"
        table.add_row(
            Text(replica.name),
            versions_in_words(replica.stable, {}) + (f"\n{replica.reason}" if replica.reason else ""),
            Text(arms),
            Text(seen, "" if replica.lives else "red"),
        )
    return table


def gates_table(verdicts: Sequence[GateVerdict]) -> Table:
    """Gates with what is held against the limit."""
    table = Table("arm", "gate", "verdict")
    for heading in ("value", "interval", "samples"):
        table.add_column(heading, justify="right")
    table.add_column("limit")
    for each in verdicts:
        verdict = Text(each.verdict, VERDICT_STYLES[each.verdict])
        if each.dry_run:
            verdict.append(" (only reported)", "dim")
        unit = METRICS[each.metric].unit if each.stable_value is None else ""
        table.add_row(
            Text(each.arm),
            each.metric,
            verdict,
            f"{number(each.value)} {unit}".strip() if each.value is not None else "",
            _interval(each),
            str(each.samples),
            each.limit,
        )
    return table


def _interval(verdict: GateVerdict) -> str:
    if verdict.value is None:
        return ""
    return f"{number(verdict.low) or '-inf'} to {number(verdict.high) or 'inf'}"


def history_table(rollouts: Sequence[Rollout]) -> Table:
    """All rollouts, the newest last."""
    table = Table("rollout", "voice", "policy", "arms", "created", "phase", "reason")
    for rollout in rollouts:
        spec, state = rollout.spec, rollout.state
        arms = "\n".join(f"{arm}: {versions_in_words(each, rollout.stable)}" for arm, each in rollout.arms.items())
        table.add_row(
            Text(rollout.id, no_wrap=True),
            Text(spec.voice),
            spec.policy.kind,
            Text(arms),
            clock(rollout.created_at),
            Text(state.phase.replace("_", " "), PHASE_STYLES.get(state.phase, "")),
            Text(state.reason),
        )
    return table
