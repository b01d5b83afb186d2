"""What a conversion asks the judge of quality, and how: of a version that a CPU can run, in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import onnx

from voxrepo.convert.precision.search import Opinion
from voxrepo.convert.sources import StageSource
from voxrepo.quality.gates import FIXED_GATES
from voxrepo.quality.judge import JudgeOptions, VersionJudge
from voxrepo.repository.layout import Layout
from voxrepo_contract.stage import AnyStage, sha256_of, write_stage


@dataclass(frozen=True)
class Judged:
    """What the judge says of a version.

    Attributes:
        accepted: whether the gates pass.
        reasons: sentences, of the gates that do not pass.
        table: what was measured, as plain values for ``stage.yaml``.
        open: whether no gate fails, but some could not be measured: then there is nothing to search for.
    """

    accepted: bool
    reasons: tuple[str, ...] = ()
    table: Mapping[str, Any] = field(default_factory=dict)
    open: bool = False

    def opinion(self) -> Opinion:
        """For the search."""
        return Opinion(self.accepted, self.reasons)


class StageJudge(Protocol):
    """Compares a version, in a folder, with the one that it was made from."""

    def __call__(self, candidate: Path, *, searching: bool) -> Judged:
        """Judge a version.

        Args:
            candidate: its folder, with ``stage.yaml``; graphs of ``device: cpu``.
            searching: one of many, of which the last is judged again in full: fewer texts will do.
        """
        ...


SEARCH_TEXTS = 3
"""Texts that a search judges by; what it finds is judged by all."""

SAME_MODEL = {gate.metric: gate.limit for gate in FIXED_GATES}
"""Also for the acoustic stage: at lower precision it is still the same model. With the durations of the source it
must make nearly the same samples, which nobody could ask of one that was trained anew."""

JudgeMaker = Callable[[Layout, str, StageSource], StageJudge]
"""Makes the judge of a stage of a voice."""


def gates_of(layout: Layout, voice: str, source: StageSource) -> StageJudge:
    """The judge that ships with voxrepo: everyday texts of the language, its gates at their defaults."""
    return _Gates(layout, voice, source)


class _Gates:
    def __init__(self, layout: Layout, voice: str, source: StageSource) -> None:
        self._layout = layout
        self._voice = voice
        self._source = source
        self._judges: dict[int | None, VersionJudge] = {}

    def __call__(self, candidate: Path, *, searching: bool) -> Judged:
        found = self._judge(SEARCH_TEXTS if searching else None).judge({self._source.stage: candidate})
        return Judged(found.accepted, found.reasons, found.table(), found.verdict == "inconclusive")

    def _judge(self, most_texts: int | None) -> VersionJudge:
        # made when first asked, since what it needs may not be installed, and kept with what the source said
        if most_texts not in self._judges:
            options = JudgeOptions(timed=False, most_texts=most_texts, changes=SAME_MODEL)
            reference = {self._source.stage: self._source.version}
            self._judges[most_texts] = VersionJudge(self._layout, self._voice, reference, options)
        return self._judges[most_texts]


def candidate_in(folder: Path, source: StageSource, models: Mapping[str, onnx.ModelProto]) -> AnyStage:
    """Write a version of a stage with other graphs of the same inputs and outputs; ``folder`` exists.

    Raises:
        OSError: it cannot be written.
    """
    graphs = dict(source.spec.graphs)
    for name, model in models.items():
        file = folder / f"{name}.onnx"
        file.write_bytes(model.SerializeToString(deterministic=True))
        graphs[name] = graphs[name].model_copy(update={"file": file.name, "sha256": sha256_of(file)})
    for entry in source.spec.files.values():
        (folder / entry.file).write_bytes((source.folder / entry.file).read_bytes())
    spec = source.spec.model_copy(update={"graphs": graphs})
    write_stage(folder, spec)
    return spec
