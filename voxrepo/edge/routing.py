"""Pure: which arm of a voice serves a request.

Assignment is weighted rendezvous hashing (Schindelhauer and Schomaker, "Weighted distributed hash tables", 2005): with
a number ``h`` drawn from (0, 1) for each arm by a hash of rollout, arm and key, the arm of least ``-ln(h) / weight``
has the request. These are exponential variables of rate ``weight``, and the least of some is each one's with a
probability of its rate's share: the division is exact. The numbers do not depend on weights, on the process or on
time, so that a key stays where it is. Nobody leaves an arm whose weight is raised, and with one arm beside the stable
one a raised weight moves users towards that arm only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from hashlib import blake2b

from voxrepo.edge.parameters import shown
from voxrepo.edge.table import VoiceEntry
from voxrepo.rollout.route import STABLE_ARM, Overflow, Route
from voxrepo_contract.errors import NotFound

_SALT_OF_COPIES = ":copies"
"""In place of an arm's name, which cannot look like this: who is copied does not depend on who is assigned."""

_BITS = 52
"""Of the hash that are used: a double holds ``n + 0.5`` for each number of so many bits, and none is rounded to 1."""


def uniform(rollout: str, salt: str, key: str) -> float:
    """A number in (0, 1), the same for the same arguments on every process and machine."""
    text = f"{rollout}\0{salt}\0{key}".encode("utf-8", "surrogateescape")
    number = int.from_bytes(blake2b(text, digest_size=8).digest(), "big") >> (64 - _BITS)
    return (number + 0.5) / (1 << _BITS)


def assigned_arm(rollout: str, weights: Mapping[str, float], key: str) -> str:
    """The arm that has the requests with a key.

    Args:
        rollout: its id; rollouts divide users independently.
        weights: percent by arm other than stable, which has the rest.
        key: of the user, or of the request.
    """
    best, best_score = STABLE_ARM, math.inf
    rest = 100.0 - sum(weights.values())
    if rest > 1e-9:
        best_score = -math.log(uniform(rollout, STABLE_ARM, key)) / rest
    for arm, weight in weights.items():
        if weight > 0:
            score = -math.log(uniform(rollout, arm, key)) / weight
            if score < best_score:
                best, best_score = arm, score
    return best


def is_sampled(rollout: str, request_id: str, percent: float) -> bool:
    """Whether a request is among the ``percent`` of them that are copied."""
    return percent > 0 and uniform(rollout, _SALT_OF_COPIES, request_id) * 100.0 < percent


def arm_entry(voice: str, arm: str, voices: Mapping[str, VoiceEntry]) -> VoiceEntry | None:
    """The row of an arm of a voice; None if it is not served."""
    if arm == STABLE_ARM:
        return voices.get(voice)
    entry = voices.get(f"{voice}.{arm}")
    return entry if entry is not None and (entry.voice, entry.arm) == (voice, arm) else None


def named_arm(voice: str, name: str, voices: Mapping[str, VoiceEntry], route: Route | None) -> VoiceEntry:
    """The row of the arm that a client names, by its name or by a label.

    Raises:
        NotFound: no such arm is served; the message names those that are.
    """
    label = route.labels.get(name) if route is not None else None
    entry = arm_entry(voice, name, voices) or (arm_entry(voice, label, voices) if label is not None else None)
    if entry is None:
        raise no_such_arm(voice, name, voices, route)
    return entry


def no_such_arm(voice: str, name: str, voices: Mapping[str, VoiceEntry], route: Route | None) -> NotFound:
    """The error for an arm that is not served."""
    labels = route.labels if route is not None else {}
    arms = [STABLE_ARM] * (voice in voices) + sorted(entry.arm for entry in voices.values() if entry.voice == voice)
    known = [*arms, *(f"{label} ({arm})" for label, arm in sorted(labels.items()) if arm in arms and label not in arms)]
    return NotFound(f"voice {voice!r} has no arm {shown(name)} that is loaded; its arms: {', '.join(known) or 'none'}")


def copy_arm(route: Route, arm: str, request_id: str) -> str | None:
    """The arm that speaks a request again, to be compared; None for most requests.

    Args:
        route: of the voice.
        arm: that has served the request.
        request_id: its id.
    """
    if arm == STABLE_ARM:
        other, percent = route.shadow_arm, route.shadow_percent
    else:
        other, percent = (STABLE_ARM if arm in route.weights else None), route.pair_percent
    return other if other is not None and is_sampled(route.rollout, request_id, percent) else None


class OverflowSwitch:
    """Remembers whether new requests of a voice go to its cheaper arm.

    Attributes:
        is_over: whether they do.
    """

    def __init__(self) -> None:
        self.is_over = False

    def arm(self, overflow: Overflow, wait_s: float) -> str:
        """The arm for a new request.

        Args:
            overflow: the limits.
            wait_s: predicted wait in the stable arm's line.
        """
        limit_s = overflow.below_wait_s if self.is_over else overflow.above_wait_s
        self.is_over = wait_s > limit_s
        return overflow.arm if self.is_over else STABLE_ARM
