"""Versions that are there: who uses them, how large they are, where they come from, what was measured of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from voxrepo.convert.staging import existing_versions
from voxrepo.repository.layout import Layout
from voxrepo.versions.add import PROVENANCE_KEY
from voxrepo.versions.names import Ref, StageRef
from voxrepo.versions.scores import QUALITY_KEY
from voxrepo.versions.use import Uses, uses_of
from voxrepo_contract.errors import ConfigError, NotFound
from voxrepo_contract.names import VOICE_STAGES
from voxrepo_contract.stage import AnyStage, read_stage


@dataclass(frozen=True)
class VersionInfo:
    """One version of a stage.

    Attributes:
        ref: the stage.
        version: its number.
        size_bytes: of all its files.
        used_by: phrases.
        spec: its ``stage.yaml``; None if that is wrong.
        trouble: what is wrong with it.
    """

    ref: StageRef
    version: int
    size_bytes: int
    used_by: tuple[str, ...]
    spec: AnyStage | None
    trouble: str = ""

    @property
    def source(self) -> str:
        """What it was made from, in a few words."""
        origin = {} if self.spec is None else self.spec.provenance
        added, conversion = origin.get(PROVENANCE_KEY), origin.get("conversion")
        if isinstance(added, dict):
            return str(added.get("source", ""))
        if isinstance(conversion, dict):
            return f"converted from version {conversion.get('source_version', '?')}"
        return str(origin.get("source", ""))

    @property
    def metrics(self) -> dict[str, float]:
        """Scores of its smoke test, if it had one."""
        tried = {} if self.spec is None else self.spec.quality.get(QUALITY_KEY)
        found = tried.get("metrics") if isinstance(tried, dict) else None
        return dict(found) if isinstance(found, dict) else {}

    def summary(self) -> dict[str, Any]:
        """Plain values for ``--json``."""
        return {
            "voice": self.ref.voice,
            "stage": self.ref.stage,
            "version": self.version,
            "size_bytes": self.size_bytes,
            "used_by": list(self.used_by),
            "source": self.source,
            "metrics": self.metrics,
            "trouble": self.trouble,
        }


def list_versions(layout: Layout, voices: Sequence[str], stage: str | None = None) -> list[VersionInfo]:
    """All versions of some voices' stages, or of one stage of each."""
    found = []
    for voice in voices:
        try:
            uses = uses_of(layout, voice)
        except ConfigError:
            uses = {}  # for `voxrepo doctor` to say; the versions are there all the same
        for name in VOICE_STAGES:
            if stage in {None, name}:
                ref = StageRef(voice, name)
                numbers = existing_versions(layout.model_repository / ref.model)
                found += [_info(layout, ref, number, uses) for number in numbers]
    return found


def version_info(layout: Layout, ref: StageRef, version: int) -> VersionInfo:
    """One version.

    Raises:
        NotFound: it is not there.
        ConfigError: nobody can say who uses it.
    """
    numbers = existing_versions(layout.model_repository / ref.model)
    if version not in numbers:
        raise NotFound(f"{ref.model} has no version {version}; there are: {', '.join(map(str, numbers)) or 'none'}")
    return _info(layout, ref, version, uses_of(layout, ref.voice))


def newest(layout: Layout, ref: Ref) -> int:
    """Number of the newest version of a stage.

    Raises:
        NotFound: it has none.
    """
    assert ref.stage is not None
    model = StageRef(ref.voice, ref.stage).model
    numbers = existing_versions(layout.model_repository / model)
    if not numbers:
        raise NotFound(f"{model} has no version")
    return numbers[-1]


def _info(layout: Layout, ref: StageRef, version: int, uses: Uses) -> VersionInfo:
    folder = layout.version_dir(ref.model, version)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    used_by = tuple(uses.get(ref.stage, {}).get(version, ()))
    try:
        return VersionInfo(ref, version, size, used_by, read_stage(folder))
    except ConfigError as error:
        return VersionInfo(ref, version, size, used_by, None, error.message)
