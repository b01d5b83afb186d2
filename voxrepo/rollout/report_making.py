"""Gathers what happened in a rollout and what was measured for its report."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import voxrepo
from voxrepo.rollout.gate import Gate
from voxrepo.rollout.gates import estimate_of
from voxrepo.rollout.kept_audio import badness
from voxrepo.rollout.metric import METRICS, STABLE_MEASURE_PREFIX
from voxrepo.rollout.observed import Observed, PairRecord, Total
from voxrepo.rollout.overview import EventView, with_stable
from voxrepo.rollout.plan import RequestSeen, Versions
from voxrepo.rollout.report import (
    CONFIDENCE,
    ArmReport,
    MadeReport,
    Measured,
    Report,
    Sample,
    Series,
    Share,
    Verdicts,
)
from voxrepo.rollout.route import STABLE_ARM
from voxrepo.rollout.samples import ArmSamples, column, from_requests
from voxrepo.rollout.spec import ShadowPolicy, arms_of
from voxrepo.rollout.state import Rollout
from voxrepo.rollout.store import Store
from voxrepo_contract import yamlfile


def make_report(
    store: Store, rollout: Rollout, folder: Path, *, samples: int = 10, now: float | None = None
) -> MadeReport:
    """Gather what is known.

    Args:
        store: of the root.
        rollout: that is reported.
        folder: of the rollouts.
        samples: pairs of audio at most.
        now: seconds since the epoch.

    Raises:
        ConfigError: the database cannot be read.
    """
    observed = Observed(store.database)
    events = [EventView.of(logged) for logged in store.events(rollout.id)]
    promoted_at = min((event.at for event in events if event.to_phase == "promoting"), default=float("inf"))
    totals = observed.totals(rollout.id)
    pairs = [pair for pair in observed.pairs(rollout.id) if pair.seen.at < promoted_at]
    served = _by_arm(rollout, (seen for seen in observed.requests(rollout.id) if seen.at < promoted_at))
    found = {
        arm: from_requests(seen, [pair.measures for pair in pairs if pair.seen.arm == arm and pair.measures])
        for arm, seen in served.items()
    }
    state, spec = rollout.state, rollout.spec
    versions = {STABLE_ARM: rollout.stable, **rollout.arms}
    report = Report(
        made_at=time.time() if now is None else now,
        made_by=f"voxrepo {voxrepo.__version__}",
        id=rollout.id,
        voice=spec.voice,
        policy=spec.policy.kind,
        phase=state.phase,
        reason=state.reason,
        promoted=state.promoted,
        created_at=rollout.created_at,
        ended_at=state.since if state.is_final else None,
        spec=yamlfile.dump(spec),
        stable=rollout.stable,
        arms=[
            _arm(name, versions[name], samples_, [each for each in totals if each.minute <= promoted_at // 60])
            for name, samples_ in found.items()
        ],
        judgement=store.progress(rollout.id).judgement,
        decisions=[made for event in events if (made := _verdicts(event, spec.judged_gates)) is not None],
        shares=[
            Share(at=step.started_at, phase=step.phase, weights=with_stable(step.weights))
            for step in store.steps(rollout.id)
        ],
        after_promotion=_after(totals, promoted_at),
        pairs={
            arm: sum(pair.seen.arm == arm and bool(pair.measures) for pair in pairs) for arm in arms_of(spec.policy)
        },
        faults=_faults(pairs),
        samples=choose_samples(pairs, folder, samples),
        events=events,
    )
    measures = {
        arm: {name: samples_.pairs[name] for name in METRICS if name in samples_.pairs}
        for arm, samples_ in found.items()
    }
    return MadeReport(report, folder, {arm: _series(seen) for arm, seen in served.items()}, measures, totals)


def _verdicts(event: EventView, gates: Sequence[Gate]) -> Verdicts | None:
    found = event.numbers.get("verdicts")
    if not isinstance(found, list) or not found:
        return None
    # events hold what was found only; what was asked for is in the spec, in the same order for each arm
    limits = [gate.limit for gate in gates]
    verdicts = [{**each, "limit": limits[number % len(limits)]} for number, each in enumerate(found)]
    counts = {name: event.numbers.get(name, {}) for name in ("requests", "pairs")}
    return Verdicts.model_validate({"at": event.at, "what": event.reason, **counts, "verdicts": verdicts})


def _by_arm(rollout: Rollout, seen: Iterable[RequestSeen]) -> dict[str, list[RequestSeen]]:
    """Clients' own requests by arm, the stable one first; of a shadow arm, which has none, the copies."""
    arms = arms_of(rollout.spec.policy)
    is_shadow = isinstance(rollout.spec.policy, ShadowPolicy)
    served: dict[str, list[RequestSeen]] = {arm: [] for arm in [STABLE_ARM, *arms]}
    for request in seen:
        if request.arm in served and bool(request.copy_of) == (is_shadow and request.arm in arms):
            served[request.arm].append(request)
    return served


def _after(totals: Iterable[Total], promoted_at: float) -> dict[str, int]:
    counts: dict[str, int] = {}
    for total in totals:
        if total.arm == STABLE_ARM and not total.is_copy and total.minute > promoted_at // 60:
            counts[total.outcome] = counts.get(total.outcome, 0) + total.requests
    return counts


def _arm(name: str, versions: Versions, samples: ArmSamples, totals: Iterable[Total]) -> ArmReport:
    requests: dict[str, int] = {}
    copies: dict[str, int] = {}
    audio_s = 0.0
    for total in totals:
        if total.arm == name:
            counts = copies if total.is_copy else requests
            counts[total.outcome] = counts.get(total.outcome, 0) + total.requests
            audio_s += 0.0 if total.is_copy else total.audio_s
    metrics = {}
    for metric in METRICS.values():
        estimate, count = estimate_of(metric, samples, CONFIDENCE)
        if count:
            metrics[metric.name] = Measured(
                value=_known(estimate.value), low=_known(estimate.low), high=_known(estimate.high), samples=count
            )
    return ArmReport(
        name=name, versions=versions, requests=requests, copies=copies, audio_s=round(audio_s, 3), metrics=metrics
    )


def _known(number: float) -> float | None:
    return number if abs(number) < float("inf") else None


def _faults(pairs: Iterable[PairRecord]) -> dict[str, int]:
    faults: dict[str, int] = {}
    for pair in pairs:
        if pair.seen.fault:
            faults[pair.seen.fault] = faults.get(pair.seen.fault, 0) + 1
    return faults


def _series(seen: Iterable[RequestSeen]) -> Series:
    answered = [request for request in seen if request.outcome == "ok"]
    return Series(
        at=column(request.at for request in answered),
        latency_s=column(request.latency_s for request in answered),
        real_time_factor=column(
            request.latency_s / request.audio_s if request.audio_s else None for request in answered
        ),
        engine_real_time_factor=column(
            request.engine_s / request.audio_s if request.audio_s and request.engine_s is not None else None
            for request in answered
        ),
        level_dbfs=column(request.level_dbfs for request in answered),
        silence_ratio=column(request.silence_ratio for request in answered),
    )


def choose_samples(pairs: Iterable[PairRecord], folder: Path, count: int) -> list[Sample]:
    """Pairs whose audio is kept: up to half of ``count`` that differ most, then the first ones.

    Args:
        pairs: of the rollout.
        folder: of the rollouts; files outside are left out, as are those that are gone.
        count: at most.
    """
    kept = [
        pair for pair in pairs if len(pair.files) > 1 and all(_is_there(folder, file) for file in pair.files.values())
    ]
    far = sorted(kept, key=lambda pair: badness(pair.measures), reverse=True)[: count // 2]
    far = [pair for pair in far if badness(pair.measures) > 0]
    first = sorted((pair for pair in kept if pair not in far), key=lambda pair: pair.seen.at)[: count - len(far)]
    return [_sample(pair, "differs most") for pair in far] + [_sample(pair, "among the first") for pair in first]


def _sample(pair: PairRecord, why: str) -> Sample:
    seen = pair.seen
    return Sample(
        id=seen.id,
        at=seen.at,
        arm=seen.arm,
        why=why,
        text=seen.text,
        seed=seen.seed,
        speed=seen.speed,
        speaker=seen.speaker,
        measures={name: value for name, value in pair.measures.items() if not name.startswith(STABLE_MEASURE_PREFIX)},
        files=pair.files,
    )


def _is_there(folder: Path, file: str) -> bool:
    path = (folder / file).resolve()
    return path.is_relative_to(folder.resolve()) and path.is_file()
