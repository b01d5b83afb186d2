"""Taking out of a model what a voice should not have: chance, and the rounding of signals to eight bits."""

from __future__ import annotations

from voxrepo.importers.tflite.model import Operator, TfliteModel
from voxrepo_contract.errors import ConversionRefused

RANDOM = frozenset({"FlexRandomUniform", "RANDOM_UNIFORM"})
_SHAPE_ONLY = frozenset({"EXPAND_DIMS", "RESHAPE", "SQUEEZE"})


def without_dropout(model: TfliteModel) -> TfliteModel:
    """Replace ``x * 1/keep * (random >= 1 - keep)`` by ``x``, its expected value.

    Some voices were exported with the dropout of training still on, so that they sound differently each time.

    Raises:
        ConversionRefused: random numbers are used in another way.
    """
    producers = model.producers()
    passed: dict[int, int] = {}
    for operator in model.of_kind("MUL"):
        for scaled, kept in (operator.inputs, operator.inputs[::-1]):
            threshold = _threshold(model, producers, kept)
            if threshold is None:
                continue
            scale = producers.get(scaled)
            factor = None if scale is None or scale.kind != "MUL" else model.real(scale.inputs[1])
            if scale is None or factor is None or factor.size != 1 or abs(float(factor) * (1 - threshold) - 1) > 1e-3:
                raise ConversionRefused("the graph drops values at random and does not scale the rest to match")
            passed[operator.output] = scale.inputs[0]
    simpler = model.with_identities(passed)
    if any(random for random in simpler.operators if random.kind in RANDOM and _is_needed(simpler, random)):
        raise ConversionRefused("the graph draws random numbers for something else than dropout")
    return _only_needed(simpler)


def _threshold(model: TfliteModel, producers: dict[int, Operator], tensor: int) -> float | None:
    """The constant that random numbers are compared with, if ``tensor`` is such a comparison as numbers."""
    cast = producers.get(tensor)
    compared = producers.get(cast.inputs[0]) if cast is not None and cast.kind == "CAST" else None
    if compared is None or compared.kind != "GREATER_EQUAL":
        return None
    random, bound = producers.get(compared.inputs[0]), model.real(compared.inputs[1])
    return float(bound) if random is not None and random.kind in RANDOM and bound is not None else None


def without_rounding(model: TfliteModel) -> TfliteModel:
    """Replace pairs of ``QUANTIZE`` and ``DEQUANTIZE`` by what they round."""
    producers = model.producers()
    passed = {operator.output: operator.inputs[0] for operator in model.of_kind("QUANTIZE")}
    rounded = set(passed)
    for operator in model.of_kind("DEQUANTIZE"):
        source = operator.inputs[0]
        while (producer := producers.get(source)) is not None and producer.kind in _SHAPE_ONLY:
            source = producer.inputs[0]
        if source in rounded:
            passed[operator.output] = operator.inputs[0]
    return model.with_identities(passed)


def _needed(model: TfliteModel) -> set[int]:
    producers = model.producers()
    seen: set[int] = set()
    stack = list(model.outputs)
    while stack:
        tensor = stack.pop()
        if tensor in seen:
            continue
        seen.add(tensor)
        producer = producers.get(tensor)
        if producer is not None:
            stack.extend(producer.inputs)
    return seen


def _is_needed(model: TfliteModel, operator: Operator) -> bool:
    return operator.output in _needed(model)


def _only_needed(model: TfliteModel) -> TfliteModel:
    needed = _needed(model)
    kept = tuple(operator for operator in model.operators if operator.output in needed)
    return TfliteModel(model.tensors, kept, model.inputs, model.outputs)
