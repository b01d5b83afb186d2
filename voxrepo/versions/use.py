"""Who uses which version of a stage, as far as files tell: the voice, arms, the rollouts' plan, servers that run."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping

from voxrepo.edge.table import read_table
from voxrepo.repository.arms import arms_on_disk
from voxrepo.repository.layout import VOICE_FILE, Layout
from voxrepo.repository.voice import read_voice
from voxrepo.rollout.plan import Plan, ReplicaStatus, RolloutFolder, read_json
from voxrepo.supervisor.state import StateFolder
from voxrepo_contract.errors import ConfigError

Uses = dict[str, dict[int, list[str]]]
"""By stage and version: who uses it, as a list of phrases."""


def uses_of(layout: Layout, voice: str) -> Uses:
    """Uses of all versions of a voice's stages.

    Raises:
        ConfigError: ``voice.yaml`` or the plan cannot be read, so that nobody knows.
    """
    uses: Uses = defaultdict(lambda: defaultdict(list))

    def note(versions: Mapping[str, int], who: str) -> None:
        for stage, version in versions.items():
            if who not in uses[stage][version]:
                uses[stage][version].append(who)

    note(read_voice(layout, voice).versions, VOICE_FILE)
    folder = RolloutFolder(layout.rollouts)
    plan = read_json(folder.plan_file, Plan)
    planned = plan.voices.get(voice) if plan is not None else None
    if planned is not None:
        note(planned.stable, f"rollout {planned.rollout}: stable")
        for arm, versions in planned.arms.items():
            note(versions, f"rollout {planned.rollout}: arm {arm}")
    for spec in arms_on_disk(layout):
        if spec.voice == voice:
            note(spec.versions, f"arm {spec.arm}")
    for status in _living(folder):
        served = status.voices.get(voice)
        if served is not None:
            note(served.stable, f"server {status.name}")
            for arm, state in served.arms.items():
                if state.state != "failed":
                    note(state.versions, f"server {status.name}: arm {arm}")
    for versions in _served_here(layout, voice):
        note(versions, "the server that runs here")
    return {stage: dict(versions) for stage, versions in uses.items()}


def _living(folder: RolloutFolder) -> list[ReplicaStatus]:
    living = []
    for file in sorted(folder.replicas.glob("*/status.json")):
        try:
            status = read_json(file, ReplicaStatus)
        except ConfigError:
            continue  # of another version of this program, or half of a file that was copied; it is renewed if it lives
        if status is not None and status.lives_at(time.time()):
            living.append(status)
    return living


def _served_here(layout: Layout, voice: str) -> list[dict[str, int]]:
    folder = StateFolder(layout)
    if folder.read_running() is None:
        return []
    try:
        table = read_table(folder.table_file)
    except ConfigError:
        return []
    return [entry.versions for entry in table.voices.values() if entry.base == voice]
