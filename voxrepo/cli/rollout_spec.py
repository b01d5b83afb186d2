"""A rollout's spec from the options of ``voxrepo rollout start``."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from voxrepo.rollout.route import STABLE_ARM
from voxrepo.rollout.spec import RolloutSpec, parse_spec, read_spec
from voxrepo_contract.errors import ConfigError, InvalidArgument

DEFAULT_ARM = "candidate"
_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"\A(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\Z")


@dataclass(frozen=True)
class SpecOptions:
    """The options, as given; None and empty are left to the defaults.

    Attributes:
        voice: name.
        versions: ``stage=version`` of the arm.
        arm: its name.
        policy: kind.
        steps: ``weight:hold[:requests]``, parted by commas.
        then: what follows the steps of a canary, or the pairs of a shadow.
        weight: percent of the arm of an A/B test.
        duration: of an A/B test.
        min_requests: of each step, or arm.
        winner: metric of an A/B test.
        percent: copied to a shadow arm.
        min_pairs: of a shadow arm.
        above_wait: of overflow.
        below_wait: of overflow.
        pair_percent: of requests that both arms speak.
        keep_previous: time for which the replaced versions stay loaded.
        resource_preserving: whether the old versions are unloaded first.
    """

    voice: str | None = None
    versions: Sequence[str] = field(default_factory=tuple)
    arm: str | None = None
    policy: str | None = None
    steps: str | None = None
    then: str | None = None
    weight: float | None = None
    duration: str | None = None
    min_requests: int | None = None
    winner: str | None = None
    percent: float | None = None
    min_pairs: int | None = None
    above_wait: str | None = None
    below_wait: str | None = None
    pair_percent: float | None = None
    keep_previous: str | None = None
    resource_preserving: bool = False

    @property
    def given(self) -> list[str]:
        """Names of the options that were given, as on the command line."""
        names = {"versions": "--set"}
        return [
            names.get(name, f"--{name.replace('_', '-')}")
            for name, value in vars(self).items()
            if value is not None and value is not False and value not in ((), [])
        ]


def parse_duration(text: str, option: str) -> float:
    """Seconds of ``90``, ``90s``, ``5m``, ``1.5h`` or ``500ms``.

    Raises:
        InvalidArgument: it is none.
    """
    found = _DURATION.match(text.strip().lower())
    if found is None or found.group(2) not in _SECONDS:
        raise InvalidArgument(f"{option}: {text!r} is no time; write such as 90s, 5m, 1.5h or 500ms")
    return float(found.group(1)) * _SECONDS[found.group(2)]


def parse_weight(text: str, option: str) -> float:
    """Percent of ``20``, ``2.5`` or ``20%``.

    Raises:
        InvalidArgument: it is no number from 0 to 100.
    """
    try:
        weight = float(text.strip().removesuffix("%"))
    except ValueError:
        weight = math.nan
    if not 0 <= weight <= 100:
        raise InvalidArgument(f"{option}: {text!r} is no share; write percent from 0 to 100, such as 20 or 2.5%")
    return weight


def parse_steps(text: str, min_requests: int | None = None) -> list[dict[str, Any]]:
    """Steps of a canary from ``1:60s,10:5m:500,50:5m``: weight, shortest time, and least number of requests.

    Raises:
        InvalidArgument: it is not of that form.
    """
    steps = []
    for number, part in enumerate(text.split(","), 1):
        option = f"--steps, step {number}"
        words = part.split(":")
        if len(words) > 3 or not part.strip():
            raise InvalidArgument(f"{option}: {part!r} is not of the form weight:time or weight:time:requests")
        step: dict[str, Any] = {"weight": parse_weight(words[0], option)}
        if len(words) > 1:
            step["hold_s"] = parse_duration(words[1], option)
        if len(words) > 2:
            step["min_requests"] = _count(words[2], option)
        elif min_requests is not None:
            step["min_requests"] = min_requests
        steps.append(step)
    return steps


def parse_pairs(texts: Sequence[str], what: str) -> dict[str, str]:
    """``name=value`` of several words.

    Raises:
        InvalidArgument: one is not of that form, or names something twice.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name.strip() and value.strip()):
            raise InvalidArgument(f"{what}: {text!r} is not of the form name=value")
        if name.strip() in pairs:
            raise InvalidArgument(f"{what}: {name.strip()} is given twice")
        pairs[name.strip()] = value.strip()
    return pairs


def _count(text: str, option: str) -> int:
    if not text.strip().isascii() or not text.strip().isdigit():
        raise InvalidArgument(f"{option}: {text!r} is no whole number")
    return int(text)


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _seconds(text: str | None, option: str) -> float | None:
    return None if text is None else parse_duration(text, option)


def spec_of(options: SpecOptions) -> RolloutSpec:
    """The spec that the options describe, valid in itself.

    Raises:
        InvalidArgument: they do not make one.
    """
    if options.voice is None or not options.versions:
        raise InvalidArgument("give a file SPEC.yaml, or --voice and the versions of the new arm: --set vocoder=2")
    arm = options.arm or DEFAULT_ARM
    versions = {
        stage: _count(version, f"--set {stage}") for stage, version in parse_pairs(options.versions, "--set").items()
    }
    kind = options.policy or "canary"
    allowed = _POLICY_OPTIONS.get(kind)
    if allowed is None:
        raise InvalidArgument(f"--policy: there is no {kind!r}; there are: {', '.join(_POLICY_OPTIONS)}")
    for option in options.given:
        owners = [name for name, theirs in _POLICY_OPTIONS.items() if option in theirs]
        if owners and kind not in owners:
            raise InvalidArgument(f"{option} belongs to the policy {' or '.join(owners)}, not to {kind!r}")
    data: dict[str, Any] = {
        "voice": options.voice,
        "arms": {arm: versions},
        "policy": {"kind": kind, **_policy(kind, arm, options)},
        **_known(
            {
                "pair_percent": options.pair_percent,
                "keep_previous_s": _seconds(options.keep_previous, "--keep-previous"),
            }
        ),
    }
    if options.resource_preserving:
        data["resource_preserving"] = True
    try:
        # by way of YAML, so that a file and options are held to one and the same schema
        return parse_spec(yaml.safe_dump(data, sort_keys=False), Path("options"))
    except ConfigError as error:
        raise InvalidArgument(error.problem) from error


_POLICY_OPTIONS: dict[str, set[str]] = {
    "canary": {"--steps", "--then", "--min-requests", "--pair-percent", "--resource-preserving"},
    "ab": {"--weight", "--duration", "--winner", "--min-requests", "--pair-percent"},
    "shadow": {"--percent", "--min-pairs", "--then"},
    "overflow": {"--above-wait", "--below-wait"},
    "tiered": set(),
}


def _policy(kind: str, arm: str, options: SpecOptions) -> dict[str, Any]:
    if kind == "ab":
        if options.weight is None:
            raise InvalidArgument("--weight: the policy 'ab' needs the arm's share in percent, such as --weight 50")
        return {
            "weights": {arm: options.weight, STABLE_ARM: 100 - options.weight},
            **_known(
                {
                    "duration_s": _seconds(options.duration, "--duration"),
                    "min_requests": options.min_requests,
                    "winner": options.winner,
                }
            ),
        }
    if kind == "shadow":
        more = {"percent": options.percent, "min_pairs": options.min_pairs, "then": options.then}
        return {"arm": arm, **_known(more)}
    if kind == "overflow":
        above, below = _seconds(options.above_wait, "--above-wait"), _seconds(options.below_wait, "--below-wait")
        if above is None or below is None:
            raise InvalidArgument("the policy 'overflow' needs --above-wait and --below-wait, such as 2s and 0.5s")
        return {"arm": arm, "above_wait_s": above, "below_wait_s": below}
    if kind == "tiered":
        return {"arm": arm}
    steps = None
    if options.steps is not None:
        steps = parse_steps(options.steps, options.min_requests)
    elif options.min_requests is not None:
        from voxrepo.rollout.defaults import WEIGHTS

        steps = [{"weight": weight, "min_requests": options.min_requests} for weight in WEIGHTS]
    return {"arm": arm, **_known({"steps": steps, "then": options.then})}


def load_spec(file: Path | None, options: SpecOptions) -> RolloutSpec:
    """The spec of a file or of the options.

    Raises:
        ConfigError: the file is wrong, with line.
        InvalidArgument: the options are, or there are both.
    """
    if file is None:
        return spec_of(options)
    if options.given:
        raise InvalidArgument(f"{file} and {', '.join(options.given)}: give a file or options, not both")
    return read_spec(file)
