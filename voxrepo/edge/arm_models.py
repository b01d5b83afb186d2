"""Pure: which of the engine's models are arms', which of those clients may know, and which cost much."""

from __future__ import annotations

from collections.abc import Callable

from voxrepo.edge.gates import line_name
from voxrepo.edge.table import EdgeTable
from voxrepo_contract.names import STREAM_SUFFIX, VOICE_STAGES

DEAR = 1.5
"""An arm whose calls cost this many times as much as those of the stable versions leaves a place to these. Others do
not, or gates would compare latencies of unequal chances: a cheap arm with most of the users would seem slow."""
USUAL_UNITS = 64
"""Characters, ids or frames of a call of middle size."""


def serves_arms_only(table: EdgeTable, model: str, version: str) -> bool:
    """Whether calls of a model, or of a version of a stage, are of arms, and of nobody who uses the stable versions."""
    row = table.voices.get(model)
    if row is not None and not row.voice:
        return False
    name, _, stage = model.rpartition(".")
    voice = table.voices.get(name if row is None else row.voice)
    if voice is None or voice.voice:
        return False
    if row is None and stage in VOICE_STAGES:
        return version not in ("", str(voice.versions.get(stage)))
    # while a voice is given other versions, an arm's ensemble serves it
    return model != voice.ensemble


def is_dear(table: EdgeTable, model: str, version: str, line: Callable[[str], tuple[float, float]]) -> bool:
    """Whether calls of an arm's model are known to cost much more than those of the stable versions.

    Args:
        table: the current one.
        model: of which :func:`serves_arms_only` is true.
        version: likewise.
        line: costs by the name of a line, see :meth:`voxrepo.edge.costs.Costs.line`.
    """
    row = table.voices.get(model)
    name, _, stage = model.rpartition(".")
    voice = table.voices[name if row is None else row.voice]
    is_stage = row is None and stage in VOICE_STAGES
    stable = line_name(model, voice.versions[stage]) if is_stage else voice.ensemble
    cost_s, stable_s = (a + b * USUAL_UNITS for a, b in (line(line_name(model, version)), line(stable)))
    return 0 < stable_s * DEAR < cost_s


def is_unlisted(table: EdgeTable, name: str) -> bool:
    """Whether ``name`` would be an arm of a voice, or its stream, that the table does not offer.

    The engine may have it all the same: an arm that is loaded but has not spoken yet, one that was withdrawn, and what
    serves a voice for a moment while it is given other versions.
    """
    model = name.removesuffix(STREAM_SUFFIX)
    voice, _, last = model.rpartition(".")
    if model in table.voices or is_voice(table, model) or last in VOICE_STAGES or not is_voice(table, voice):
        return False
    if any(row.ensemble == model for row in table.voices.values()):
        return True
    # somebody's own model may be named like an arm; the table has a number of calls for it
    return table.engine_calls.keys().isdisjoint((name, model))


def is_voice(table: EdgeTable, name: str) -> bool:
    """Whether ``name`` is a voice, served at the moment or not."""
    row = table.voices.get(name)
    if row is not None:
        return not row.voice
    return name in table.unserved_voices or name in table.held or name in table.draining
