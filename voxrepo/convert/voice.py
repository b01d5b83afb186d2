"""Converting a voice: new versions of its stages, put into the repository and, if wanted, into ``voice.yaml``."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from voxrepo.convert.gear_choice import ONE_ROW_NOTE
from voxrepo.convert.gears import Gear
from voxrepo.convert.job import Job, conversion_key
from voxrepo.convert.parcel import complete_parcel, place_parcel
from voxrepo.convert.precision.calibration import OWN_TEXTS, check_ids
from voxrepo.convert.precision.tiers import FP32
from voxrepo.convert.proof_cases import Speaker, texts_of
from voxrepo.convert.reflection import takes_one_row
from voxrepo.convert.sources import PROVENANCE_KEY, StageSource, What, find_source
from voxrepo.convert.stage_conversion import ConvertedStage, Voices, convert_stage, stage_gears
from voxrepo.convert.stage_description import PRECISION_KEY
from voxrepo.convert.staging import alone_in, existing_versions, next_version, staging_folder, sync, sync_folder
from voxrepo.convert.target import Progress, part_of
from voxrepo.repository.check import check_voice
from voxrepo.repository.cpu_plan import usable_cores
from voxrepo.repository.layout import Layout
from voxrepo.repository.publish import place_version, publish_configs
from voxrepo.repository.publishing import publishing
from voxrepo.repository.voice import VoiceSpec, read_voice, write_voice
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.names import stage_model_name
from voxrepo_contract.stage import AnyStage, LengthRegulatedStage, TextFrontendStage, read_stage, verify_files
from voxrepo_contract.yamlfile import write_text_atomically


@dataclass(frozen=True)
class NewVersion:
    """A converted version in the repository.

    Attributes:
        stage: name of the stage.
        version: its number.
        source_version: what it was made from.
        path: its folder.
        spec: its ``stage.yaml``.
        made: false if just this conversion was there already.
    """

    stage: str
    version: int
    source_version: int
    path: Path
    spec: AnyStage
    made: bool

    def precision(self) -> dict[str, Any]:
        """Sizes, times, kept layers and the judgement; empty at FP32."""
        return dict(self.spec.quality.get(PRECISION_KEY, {}))

    def quality(self) -> dict[str, Any]:
        """The figures of the proof, by graph."""
        return dict(self.spec.quality[PROVENANCE_KEY])


@dataclass(frozen=True)
class Parcel:
    """What a compiler on another machine needs: graphs, lists, a script and a ``README.md``.

    Attributes:
        stage: name of the stage.
        source_version: what it was made from.
        path: the folder.
        precision: as :meth:`NewVersion.precision`.
    """

    stage: str
    source_version: int
    path: Path
    precision: dict[str, Any]


@dataclass(frozen=True)
class ConvertedVoice:
    """What a conversion did.

    Attributes:
        voice: its name.
        versions: new or found versions.
        used: whether ``voice.yaml`` pins them now.
        before: versions that it pinned before.
        written: configuration files written.
        parcels: of stages whose compiler is not on this machine; they have no version yet.
        notes: sentences that whoever converts should read.
    """

    voice: str
    versions: tuple[NewVersion, ...]
    used: bool
    before: dict[str, int]
    written: tuple[Path, ...] = ()
    notes: tuple[str, ...] = field(default_factory=tuple)
    parcels: tuple[Parcel, ...] = ()

    def summary(self) -> dict[str, Any]:
        """Plain values for ``--json``."""
        return {
            "voice": self.voice,
            "used": self.used,
            "before": self.before,
            "versions": [
                {
                    "stage": version.stage,
                    "version": version.version,
                    "source_version": version.source_version,
                    "path": str(version.path),
                    "made": version.made,
                    "gears": {name: graph.gears for name, graph in version.spec.graphs.items()},
                    "quality": version.quality(),
                    "precision": version.precision(),
                }
                for version in self.versions
            ],
            "parcels": [
                {
                    "stage": parcel.stage,
                    "source_version": parcel.source_version,
                    "path": str(parcel.path),
                    "precision": parcel.precision,
                }
                for parcel in self.parcels
            ],
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class _Plan:
    source: StageSource
    gears: dict[str, list[Gear]]


def front_end_of(layout: Layout, spec: VoiceSpec) -> tuple[Path, TextFrontendStage]:
    """The text front end that a voice pins, verified.

    Raises:
        ConfigError: it is missing, damaged or of another program.
    """
    folder = layout.version_dir(stage_model_name(spec.voice, "text_frontend"), spec.versions["text_frontend"])
    stage = read_stage(folder)
    if not isinstance(stage, TextFrontendStage):
        raise ConfigError(f"program: is {stage.program!r}, expected 'text_frontend'", file=folder)
    verify_files(folder, stage)
    return folder, stage


def convert_voice(layout: Layout, what: What, job: Job, *, use: bool, progress: Progress) -> ConvertedVoice:
    """Convert stages of a voice; a failure leaves nothing behind.

    Raises:
        InvalidArgument, NotFound: the request does not fit the repository.
        ConfigError: a file is wrong or cannot be written.
        ConversionRefused: a graph cannot be converted, or the conversion not proved.
    """
    with alone_in(layout.model_repository):
        return _convert(layout, what, job, use=use, progress=progress)


def _convert(layout: Layout, what: What, job: Job, *, use: bool, progress: Progress) -> ConvertedVoice:
    spec = read_voice(layout, what.voice)
    front_dir, front_end = front_end_of(layout, spec)
    plans = []
    for stage in what.stages:
        source = find_source(layout, spec, stage, what.version)
        plans.append(_Plan(source, stage_gears(source, job)))
    acoustic = next((plan.source for plan in plans if plan.source.stage == "acoustic"), None)
    acoustic = acoustic or find_source(layout, spec, "acoustic")
    work = _Work(layout, spec, plans, job, *_speakers(job, front_dir, front_end, acoustic))
    done = False
    voice_file = layout.voice_file(what.voice)
    before = voice_file.read_text(encoding="utf-8")
    written: list[Path] = []
    try:
        versions = work.make(progress)
        used = use and bool(versions)
        if used:
            pinned = _pinned(spec, versions)
            if pinned != spec:
                write_voice(layout, pinned)
            with publishing(layout):  # a server may be loading an arm of this voice
                written = publish_configs(layout, check_voice(layout, what.voice), usable_cores())
        done = True
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=error.filename) from error
    finally:
        if not done:
            if voice_file.read_text(encoding="utf-8") != before:
                write_text_atomically(voice_file, before)
            for folder in work.placed:
                shutil.rmtree(folder, ignore_errors=True)
    return ConvertedVoice(
        what.voice,
        tuple(versions),
        used,
        spec.versions,
        tuple(written),
        tuple(_notes(plans, job)),
        tuple(work.parcels),
    )


def _speakers(
    job: Job, front_dir: Path, front_end: TextFrontendStage, acoustic: StageSource
) -> tuple[Speaker, Speaker]:
    """Who speaks the texts of the proof, and who those of the calibration; they are other ones."""
    speakers = acoustic.spec.interface.speakers or 1
    proof = texts_of(front_dir, front_end, speakers)
    first = Speaker(acoustic, proof)
    if job.calibration is not None:
        assert isinstance(acoustic.spec, LengthRegulatedStage)  # Speaker refuses others
        check_ids(job.calibration.texts, acoustic.spec.options.id_count)
        return first, Speaker(acoustic, job.calibration.texts)
    own = texts_of(front_dir, front_end, speakers, skip=len(proof), count=OWN_TEXTS)
    return first, Speaker(acoustic, own)


@dataclass
class _Work:
    """One conversion under way.

    Attributes:
        placed: folders that came into being outside of staging, to be taken back on failure.
        parcels: of stages that could not be compiled here.
    """

    layout: Layout
    voice: VoiceSpec
    plans: Sequence[_Plan]
    job: Job
    proof: Speaker
    calibration: Speaker
    placed: list[Path] = field(default_factory=list)
    parcels: list[Parcel] = field(default_factory=list)

    def make(self, progress: Progress) -> list[NewVersion]:
        """All stages are built, proved and judged before the first of them is placed."""
        versions: list[NewVersion] = []
        unbuilt: list[tuple[StageSource, ConvertedStage]] = []
        with staging_folder(self.layout.model_repository) as staging:
            for number, plan in enumerate(self.plans):
                source = plan.source
                found = _existing(source, conversion_key(source, self.job, plan.gears))
                if found is not None:
                    versions.append(found)
                    continue
                folder = staging / source.stage
                folder.mkdir()
                told = part_of(progress, number / len(self.plans), 1 / len(self.plans))
                converted = convert_stage(source, self.job, plan.gears, self._voices(source), folder, told)
                if not converted.is_built:
                    complete_parcel(folder, self.voice.voice, source, self.job, converted)
                    unbuilt.append((source, converted))
                    continue
                sync_folder(folder)
                version = next_version(source.folder.parent)
                path = self.layout.version_dir(stage_model_name(self.voice.voice, source.stage), version)
                versions.append(NewVersion(source.stage, version, source.version, path, converted.spec, True))
            for made in versions:
                if made.made:
                    model = stage_model_name(self.voice.voice, made.stage)
                    self.placed.append(place_version(self.layout, model, made.version, staging / made.stage))
                    sync(made.path.parent)
            for source, converted in unbuilt:
                path = place_parcel(self.layout, self.voice.voice, source, self.job, staging / source.stage)
                table = dict(converted.spec.quality.get(PRECISION_KEY, {}))
                self.parcels.append(Parcel(source.stage, source.version, path, table))
        return versions

    def _voices(self, source: StageSource) -> Voices:
        judges = self.job.judges if self.job.precision != FP32 else None
        judge = judges(self.layout, self.voice.voice, source) if judges is not None else None
        return Voices(self.proof, self.calibration, judge)


def _existing(source: StageSource, key: str) -> NewVersion | None:
    """A sound version that just this conversion made before."""
    model_dir = source.folder.parent
    for version in reversed(existing_versions(model_dir)):
        folder = model_dir / str(version)
        try:
            spec = read_stage(folder)
            note = spec.provenance.get(PROVENANCE_KEY)
            if not isinstance(note, dict) or note.get("key") != key or PROVENANCE_KEY not in spec.quality:
                continue
            verify_files(folder, spec)
        except ConfigError:
            continue  # damaged, or not ours: a new version is made beside it
        return NewVersion(source.stage, version, source.version, folder, spec, False)
    return None


def _pinned(spec: VoiceSpec, versions: Sequence[NewVersion]) -> VoiceSpec:
    settings = dict(spec.stages.items())
    for new in versions:
        settings[new.stage] = settings[new.stage].model_copy(update={"version": new.version})
    return spec.model_copy(update={"stages": spec.stages.model_copy(update=settings)})


def _notes(plans: Sequence[_Plan], job: Job) -> list[str]:
    notes = [job.soc.note] if job.soc.note else []
    for plan in plans:
        if plan.gears.get("generator") and takes_one_row(plan.source.graph_file("generator")):
            notes.append(ONE_ROW_NOTE)
        ids = max((gear.length for gear in plan.gears.get("encoder", [])), default=job.longest_ids)
        if ids < job.longest_ids:
            notes.append(
                f"the text front end makes segments of up to {job.longest_ids} ids and the longest gear has {ids}; "
                "longer segments will be refused"
            )
    return notes
