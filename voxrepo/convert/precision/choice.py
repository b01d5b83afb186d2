"""Which layers of a stage stay in full precision: as the user says, and as the judge finds necessary."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx

from voxrepo.convert.precision.damage import Damages, Measure
from voxrepo.convert.precision.lowerer import Lowerer, Rows
from voxrepo.convert.precision.search import Damage, Opinion, Trial, smallest_kept
from voxrepo_contract.errors import ConversionRefused

GROUPS = 96
"""Groups that the layers of one graph are searched in at most; what must stay is then searched in finer ones."""
ROUNDS = 3
_FINER = 16
BY_USER = "excluded with --exclude"

Models = Mapping[str, onnx.ModelProto]
Judge = Callable[[Models], Opinion]
"""Says of the lowered graphs of a stage, by name, whether they are good enough."""


@dataclass(frozen=True)
class Choice:
    """What stays in full precision, and why.

    Attributes:
        kept: by graph and node.
        models: the lowered graphs.
        trials: what was judged on the way.
        lowered: number of layers that are lowered, by graph.
    """

    kept: dict[str, dict[str, str]]
    models: dict[str, onnx.ModelProto]
    trials: tuple[Trial, ...] = ()
    lowered: dict[str, int] = field(default_factory=dict)

    def table(self) -> dict[str, Any]:
        """Plain values for ``stage.yaml``."""
        return {
            "kept": {graph: dict(nodes) for graph, nodes in self.kept.items() if nodes},
            "lowered_layers": dict(self.lowered),
            "trials": len(self.trials),
        }


@dataclass(frozen=True)
class _Group:
    graph: str
    nodes: tuple[str, ...]

    @property
    def name(self) -> str:
        span = self.nodes[0] if len(self.nodes) == 1 else f"{self.nodes[0]}..{self.nodes[-1]}"
        return f"{self.graph}:{span}"

    @property
    def together(self) -> str:
        """A remark for a group of several nodes."""
        count = len(self.nodes)
        return "" if count == 1 else f" ({count} nodes together, {self.nodes[0]} to {self.nodes[-1]})"


def as_given(lowerers: Mapping[str, Lowerer], exclude: Mapping[str, Sequence[str]]) -> Choice:
    """Everything lowered but what the user excluded."""
    kept = _base(lowerers, exclude)
    models = {graph: lowerer.at(kept[graph]) for graph, lowerer in lowerers.items()}
    return Choice(kept, models, lowered=_lowered(lowerers, kept))


def searched(
    lowerers: Mapping[str, Lowerer],
    exclude: Mapping[str, Sequence[str]],
    quick: Judge,
    thorough: Judge,
    rows: Mapping[str, Rows],
    measures: Mapping[str, Measure],
    progress: Callable[[str], None] = lambda text: None,
) -> Choice:
    """The fewest layers kept with which the thorough judge accepts; see :mod:`voxrepo.convert.precision.search`.

    Args:
        lowerers: by graph.
        exclude: nodes that stay anyway, by graph.
        quick: judge of the search.
        thorough: judge of the result.
        rows: inputs by graph, on which each group's own damage is measured.
        measures: how, by graph; of one unit for all.
        progress: is told what is measured.

    Raises:
        ConversionRefused: nothing can be lowered without the gates being missed.
    """
    base = _base(lowerers, exclude)
    trials: list[Trial] = []
    groups = [
        _Group(graph, nodes)
        for graph, lowerer in lowerers.items()
        for nodes in _runs([name for name in lowerer.layers if name not in base[graph]], GROUPS)
    ]
    measured = {graph: Damages(lowerer, rows[graph], measures[graph]) for graph, lowerer in lowerers.items()}
    kept: dict[_Group, str] = {}
    for number in range(ROUNDS):
        by_name = {group.name: group for group in groups}

        def models(names: frozenset[str], by_name: Mapping[str, _Group] = by_name) -> dict[str, onnx.ModelProto]:
            return _models(lowerers, base, [by_name[name] for name in names])

        def damages(groups: Sequence[_Group] = groups) -> dict[str, Damage]:
            found = {}
            for place, group in enumerate(groups, start=1):
                progress(f"measuring what each layer does alone, {place} of {len(groups)}")
                damage = measured[group.graph].of(group.nodes)
                found[group.name] = replace(damage, words=damage.words + group.together)
            return found

        found = smallest_kept(
            list(by_name), lambda names: quick(models(names)), lambda names: thorough(models(names)), damages
        )
        trials += found.trials
        if not found.accepted:
            if number == 0:
                raise ConversionRefused(
                    "no layer can be lowered without the gates being missed: " + trials[0].opinion.sentence
                )
            break
        kept = {by_name[name]: reason for name, reason in found.kept.items()}
        if all(len(group.nodes) == 1 for group in kept):
            break
        groups = [_Group(group.graph, nodes) for group in kept for nodes in _runs(group.nodes, _FINER)]
    final = {
        graph: {
            **base[graph],
            **{node: reason for group, reason in kept.items() if group.graph == graph for node in group.nodes},
        }
        for graph in lowerers
    }
    return Choice(final, _models(lowerers, base, list(kept)), tuple(trials), _lowered(lowerers, final))


def _base(lowerers: Mapping[str, Lowerer], exclude: Mapping[str, Sequence[str]]) -> dict[str, dict[str, str]]:
    return {
        graph: {**lowerer.fixed, **dict.fromkeys(exclude.get(graph, ()), BY_USER)}
        for graph, lowerer in lowerers.items()
    }


def _lowered(lowerers: Mapping[str, Lowerer], kept: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
    return {graph: sum(name not in kept[graph] for name in lowerer.layers) for graph, lowerer in lowerers.items()}


def _runs(layers: Sequence[str], count: int) -> list[tuple[str, ...]]:
    """Neighbours together: at most ``count`` runs of nearly equal length."""
    count = min(count, len(layers))
    ends = [round(len(layers) * number / count) for number in range(count + 1)] if count else []
    return [tuple(layers[start:end]) for start, end in itertools.pairwise(ends)]


def _models(
    lowerers: Mapping[str, Lowerer], base: Mapping[str, Mapping[str, str]], groups: Sequence[_Group]
) -> dict[str, onnx.ModelProto]:
    return {
        graph: lowerer.at({*base[graph], *(node for group in groups if group.graph == graph for node in group.nodes)})
        for graph, lowerer in lowerers.items()
    }
