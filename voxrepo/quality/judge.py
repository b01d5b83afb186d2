"""Judging a version of a stage against another one: both speak offline, are measured, and held against the gates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import voxrepo
from voxrepo.convert.sources import find_source
from voxrepo.quality.gates import (
    Difference,
    default_gates,
    judge_gates,
    verdict_of,
    with_changes,
)
from voxrepo.quality.judgement import Judgement, StageCost, TextRow
from voxrepo.quality.material import Material, made_up, read_material
from voxrepo.quality.measuring import Measurer, summary, summary_of_sides
from voxrepo.quality.offline import OfflineStage, can_run_here
from voxrepo.quality.speaking import SpeakingPair, Spoken, Times
from voxrepo.repository.check import check_fit
from voxrepo.repository.layout import Layout
from voxrepo.repository.voice import VoiceSpec, read_voice
from voxrepo_contract.errors import ConfigError, InvalidArgument, NotFound
from voxrepo_contract.names import VOICE_STAGES, stage_model_name
from voxrepo_contract.stage import AnyStage, read_stage

TIME_ROUNDS = 2
DIGITS = 4

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class JudgeOptions:
    """How versions are compared.

    Attributes:
        texts: file with one text a line; everyday texts of the voice's language if not given.
        made_up: say made-up phonemes instead, which need no front end.
        transcribe: let a recogniser listen, too.
        changes: of the gates; see :func:`voxrepo.quality.gates.with_changes`.
        timed: measure CPU time.
        most_texts: leave out further ones.
    """

    texts: Path | None = None
    made_up: bool = False
    transcribe: bool = False
    changes: Mapping[str, float | None] | None = None
    timed: bool = True
    most_texts: int | None = None


class VersionJudge:
    """Judges candidates against one reference; what the reference says is kept.

    Args:
        layout: of the repository.
        voice: whose stages.
        reference: versions by stage; those that the voice pins where none is given.
        options: of the comparison.
        candidate_front_end: folder of the candidates' text front end, if that differs.

    Attributes:
        spoken: audio of the last judgement, in the order of the texts.

    Raises:
        NotFound: there is no such voice or version.
        ConfigError: a version is wrong or cannot run here, or what reading the texts needs is not installed.
        InvalidArgument: a front end refuses a text.
    """

    def __init__(
        self,
        layout: Layout,
        voice: str,
        reference: Mapping[str, int] | None = None,
        options: JudgeOptions | None = None,
        *,
        candidate_front_end: Path | None = None,
    ) -> None:
        self._layout = layout
        self._options = options or JudgeOptions()
        self.voice: VoiceSpec = read_voice(layout, voice)
        self._notes: list[str] = []
        self._versions: dict[str, str] = {}
        self._folders: dict[str, Path] = {}
        for stage in VOICE_STAGES:
            self._choose(stage, (reference or {}).get(stage))
        self._front_end = candidate_front_end or self._folders["text_frontend"]
        self._material = self._read()
        self._measurer = Measurer(self.voice.language, self.voice.sample_rate_hz, transcribe=self._options.transcribe)
        self._pair = SpeakingPair(self._folders)
        self.spoken: list[Spoken] = []

    def _choose(self, stage: str, version: int | None) -> None:
        number = self.voice.versions[stage] if version is None else version
        folder = version_folder(self._layout, self.voice.voice, stage, number)
        spec = read_stage(folder)
        if version is None and not can_run_here(folder, spec):
            source = find_source(self._layout, self.voice, stage)
            self._notes.append(
                f"{stage} version {number}, which the voice pins, is compiled for a chip; both sides have version "
                f"{source.version} instead, from which it was converted"
            )
            number, folder = source.version, source.folder
        self._versions[stage], self._folders[stage] = str(number), folder

    def _read(self) -> Material:
        own = self._folders["text_frontend"]
        if self._options.made_up:
            material = made_up(self.voice, own)
        else:
            material = read_material(self.voice, self._options.texts, own, self._front_end)
        most = self._options.most_texts
        if most is not None and most < len(material.lines):
            return Material(material.lines[:most], f"the first {most} of {material.source}")
        return material

    def judge(
        self,
        candidate: Mapping[str, Path],
        names: Mapping[str, str] | None = None,
        progress: Progress = lambda text, share: None,
    ) -> Judgement:
        """Judge version folders that take the place of the reference's.

        Args:
            candidate: by stage; at least one.
            names: of these versions, for the report.
            progress: told a sentence and the share done.

        Raises:
            ConfigError: a version is wrong, does not fit its neighbours, or cannot run here.
            VoxrepoError: the reference cannot say a text.
        """
        differing = [stage for stage in VOICE_STAGES if stage in candidate]
        if not differing:
            raise InvalidArgument("the candidate has no stage that differs from the reference")
        if "text_frontend" in candidate and candidate["text_frontend"] != self._front_end:
            raise InvalidArgument("a judge compares with one text front end only; make one for each")
        versions = {**self._versions, **{stage: (names or {}).get(stage, "candidate") for stage in differing}}
        self._check(candidate)
        stages = self._pair.candidate_stages(candidate)
        times, rows, lines = Times(), [], self._material.lines
        self.spoken = []
        for number, line in enumerate(lines):
            progress(f"text {number + 1} of {len(lines)}", number / len(lines))
            rounds = TIME_ROUNDS if self._options.timed else 0
            self.spoken.append(self._pair.speak(number, line, stages, times, rounds))
            rows.append(self._measurer.measure(self.spoken[-1]))
        values = summary(rows)
        missing = self._missing(values)
        difference: Difference = differing[0]  # type: ignore[assignment]
        gates = default_gates(difference, heard=self._options.transcribe)
        results = judge_gates(with_changes(gates, self._options.changes or {}), values, missing)
        own = summary_of_sides(rows)
        return Judgement(
            made_by=f"voxrepo {voxrepo.__version__}",
            voice=self.voice.voice,
            reference=dict(self._versions),
            candidate=versions,
            difference=difference,
            texts=self._material.source,
            verdict=verdict_of(results, [row.fault for row in rows if row.fault]),
            gates=list(results),
            metrics=_rounded(values),
            missing=missing,
            reference_values=_rounded(own[0]),
            candidate_values=_rounded(own[1]),
            rows=[
                TextRow(
                    text=row.text,
                    values=_rounded(row.values),
                    reference=_rounded(row.reference),
                    candidate=_rounded(row.candidate),
                    fault=row.fault,
                )
                for row in rows
            ],
            costs=[_cost(stage, self._pair.reference, stages, times) for stage in differing if stage in stages],
            notes=list(self._notes),
        )

    def _check(self, candidate: Mapping[str, Path]) -> None:
        folders = {**self._folders, **candidate}
        specs: dict[str, AnyStage] = {stage: read_stage(folder) for stage, folder in folders.items()}
        numbers = {stage: int(name) if (name := self._versions[stage]).isdigit() else 0 for stage in folders}
        check_fit(self.voice, specs, numbers, next(iter(candidate.values())))

    def _missing(self, values: Mapping[str, float]) -> dict[str, str]:
        missing = {name: why for name, why in self._measurer.missing.items() if name not in values}
        reasons = {one.not_fixed for one in self.spoken if one.not_fixed}
        if "fixed_snr_db" not in values and reasons:
            for name in ("fixed_snr_db", "fixed_mcd_db", "fixed_pesq"):
                missing[name] = "; ".join(sorted(reasons))
        return missing


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.{DIGITS}g}") for name, value in values.items()}


def _cost(
    stage: str, reference: Mapping[str, OfflineStage], candidate: Mapping[str, OfflineStage], times: Times
) -> StageCost:
    ratio = times.ratio(stage)
    seconds = times.seconds(stage)
    return StageCost(
        stage=stage,
        reference_bytes=reference[stage].size_bytes,
        candidate_bytes=candidate[stage].size_bytes,
        reference_cpu_s=None if ratio is None else round(seconds[0], 4),
        candidate_cpu_s=None if ratio is None else round(seconds[1], 4),
        time_ratio=None if ratio is None else round(ratio, 3),
    )


def version_folder(layout: Layout, voice: str, stage: str, version: int) -> Path:
    """Folder of a version.

    Raises:
        NotFound: there is none.
    """
    folder = layout.version_dir(stage_model_name(voice, stage), version)
    if not folder.is_dir():
        raise NotFound(f"{folder.parent.name} has no version {version} ({folder} is missing)")
    return folder


def judge_versions(
    layout: Layout,
    voice: str,
    stage: str,
    reference_version: int,
    candidate: int | Path,
    *,
    options: JudgeOptions | None = None,
    progress: Progress = lambda text, share: None,
) -> Judgement:
    """Judge one version of a stage against another, beside the other stages that the voice pins.

    Args:
        layout: of the repository.
        voice: name of the voice.
        stage: that differs.
        reference_version: what it is compared with.
        candidate: its version, or the folder of one that is not in the repository.
        options: of the comparison.
        progress: told a sentence and the share done.

    Raises:
        NotFound, ConfigError, InvalidArgument: see :class:`VersionJudge`.
        VoxrepoError: the reference cannot say a text.
    """
    if stage not in VOICE_STAGES:
        raise ConfigError(f"{stage!r} is no stage of a voice; there are {', '.join(VOICE_STAGES)}")
    folder = candidate if isinstance(candidate, Path) else version_folder(layout, voice, stage, candidate)
    name = "candidate" if isinstance(candidate, Path) else str(candidate)
    front_end = folder if stage == "text_frontend" else None
    judge = VersionJudge(layout, voice, {stage: reference_version}, options, candidate_front_end=front_end)
    return judge.judge({stage: folder}, {stage: name}, progress)
