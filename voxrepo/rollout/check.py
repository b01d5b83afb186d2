"""Whether a spec can be carried out in a repository; asked before anything changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from voxrepo.rollout.spec import RolloutSpec
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.names import VOICE_STAGES


def check_spec(
    spec: RolloutSpec,
    voice_versions: Mapping[str, Mapping[str, int]],
    existing_versions: Mapping[str, Collection[int]],
    other_rollouts: Mapping[str, str],
    *,
    file: Path | None = None,
) -> None:
    """Hold a spec against what there is.

    Args:
        spec: read and valid in itself.
        voice_versions: by voice, the version of each stage that ``voice.yaml`` pins.
        existing_versions: by stage of the spec's voice, the versions that are in the repository.
        other_rollouts: id by voice of rollouts that have not ended.
        file: of the spec, for messages.

    Raises:
        ConfigError: unknown voice, stage or version; an arm equal to the stable one or to another; a second rollout on
            the voice.
    """
    stable = voice_versions.get(spec.voice)
    if stable is None:
        known = ", ".join(sorted(voice_versions)) or "none"
        raise ConfigError(f"voice: there is no voice {spec.voice!r}; voices: {known}", file=file)
    if spec.voice in other_rollouts:
        running = other_rollouts[spec.voice]
        raise ConfigError(
            f"voice: the rollout {running} of {spec.voice} has not ended; a voice can have one at a time "
            f"(end it with `voxrepo rollout promote|abort {spec.voice}`)",
            file=file,
        )
    seen: dict[tuple[tuple[str, int], ...], str] = {}
    for arm, changed in spec.arms.items():
        for stage, version in changed.items():
            if stage not in stable or stage not in VOICE_STAGES:
                raise ConfigError(
                    f"arms.{arm}: {spec.voice} has no stage {stage!r}; stages: {', '.join(stable)}", file=file
                )
            there = sorted(existing_versions.get(stage, ()))
            if version not in there:
                shown = ", ".join(map(str, there)) or "none"
                raise ConfigError(
                    f"arms.{arm}.{stage}: {spec.voice}.{stage} has no version {version}; versions: {shown}", file=file
                )
        versions = {**stable, **changed}
        if versions == dict(stable):
            same = ", ".join(f"{stage} {version}" for stage, version in changed.items())
            raise ConfigError(f"arms.{arm}: equal to the stable arm, which has {same} already", file=file)
        key = tuple(sorted(versions.items()))
        if key in seen:
            raise ConfigError(f"arms.{arm}: has the same versions as {seen[key]!r}; remove one", file=file)
        seen[key] = arm
