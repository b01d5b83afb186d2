"""The series of the rollouts' controller. It serves no page: it writes them to a file, which the edges' pages show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from voxrepo.metrics.supervision import families_text
from voxrepo.rollout.gates import Judgement
from voxrepo.rollout.state import Rollout

_VERDICTS = {"pass": 1.0, "inconclusive": 0.0, "fail": -1.0}


def rollouts_text(
    active: Iterable[Rollout],
    judgements: Mapping[str, Judgement | None],
    ended: Mapping[tuple[str, str], int],
    pairs_dropped: int,
) -> str:
    """Series in Prometheus' text format.

    Args:
        active: rollouts that have not ended.
        judgements: of them, by id, where there is one.
        ended: how many have ended, by voice and final phase.
        pairs_dropped: by this controller.
    """
    state = GaugeMetricFamily(
        "voxrepo_rollout_state",
        "1 for the state of each rollout that has not ended.",
        labels=["voice", "rollout", "state"],
    )
    step = GaugeMetricFamily("voxrepo_rollout_step", "Step of a canary that runs, from 1.", labels=["voice", "rollout"])
    verdict = GaugeMetricFamily(
        "voxrepo_rollout_verdict",
        "What a gate says of an arm: 1 pass, 0 inconclusive, -1 fail.",
        labels=["voice", "arm", "metric", "dry_run"],
    )
    for rollout in active:
        voice = rollout.spec.voice
        state.add_metric([voice, rollout.id, rollout.state.phase], 1)
        if rollout.state.working_phase == "running":
            step.add_metric([voice, rollout.id], rollout.state.step + 1)
        judgement = judgements.get(rollout.id)
        # two gates may be set on one metric: the worse verdict counts, as it does for the decision
        worst: dict[tuple[str, str, str], float] = {}
        for each in judgement.verdicts if judgement is not None else ():
            key = each.arm, each.metric, str(each.dry_run).lower()
            worst[key] = min(worst.get(key, 1.0), _VERDICTS[each.verdict])
        for (arm, metric, dry_run), value in worst.items():
            verdict.add_metric([voice, arm, metric, dry_run], value)
    ends = CounterMetricFamily(
        "voxrepo_rollouts_ended", "Rollouts that have ended, by their final state.", labels=["voice", "state"]
    )
    rollbacks = CounterMetricFamily("voxrepo_rollbacks", "Rollouts that were taken back.", labels=["voice"])
    for (voice, phase), count in sorted(ended.items()):
        ends.add_metric([voice, phase], count)
    for voice in sorted({voice for voice, _ in ended} | {rollout.spec.voice for rollout in active}):
        rollbacks.add_metric([voice], ended.get((voice, "rolled_back"), 0))
    dropped = CounterMetricFamily(
        "voxrepo_rollout_pairs_dropped",
        "Pairs of audio that were not measured: too many waited, or a file was damaged.",
        value=pairs_dropped,
    )
    return families_text([state, step, verdict, ends, rollbacks, dropped])
