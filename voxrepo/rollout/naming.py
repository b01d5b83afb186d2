"""Which rollout an operator means."""

from __future__ import annotations

from voxrepo.rollout.state import Rollout
from voxrepo.rollout.store import Store
from voxrepo_contract.errors import InvalidArgument, NotFound


def find_rollout(store: Store, name: str | None, *, only_active: bool = False) -> Rollout:
    """The rollout of a name.

    Args:
        store: of the root.
        name: its id, the beginning of it, or its voice: then the voice's rollout that has not ended, else its newest.
            None is the only one that has not ended, else the newest of all.
        only_active: whether one that has ended is no answer.

    Raises:
        NotFound: there is none, or it has ended and must not have.
        InvalidArgument: the name fits several.
    """
    everything = store.rollouts()
    fitting = everything if name is None else _fitting(everything, name)
    active = [rollout for rollout in fitting if not rollout.state.is_final]
    if len(active) > 1:
        which = ", ".join(f"{rollout.id} ({rollout.spec.voice})" for rollout in active)
        what = "several rollouts are under way" if name is None else f"{name!r} fits several rollouts"
        raise InvalidArgument(f"{what}, name one: {which}")
    if active:
        return active[0]
    if not fitting:
        raise NotFound(
            "there is no rollout yet" if name is None else f"there is no rollout {name!r}{_known(everything)}"
        )
    if only_active:
        last = fitting[-1]
        raise NotFound(
            f"no rollout is under way{'' if name is None else f' for {name!r}'}; the last one, {last.id}, is "
            f"{last.state.phase}"
        )
    if name is not None and len(fitting) > 1 and fitting[-1].spec.voice != name:
        raise InvalidArgument(f"{name!r} fits several rollouts, name one: {', '.join(each.id for each in fitting)}")
    return fitting[-1]


def _fitting(rollouts: list[Rollout], name: str) -> list[Rollout]:
    exact = [rollout for rollout in rollouts if rollout.id == name]
    of_voice = [rollout for rollout in rollouts if rollout.spec.voice == name]
    return exact or of_voice or [rollout for rollout in rollouts if name and rollout.id.startswith(name)]


def _known(rollouts: list[Rollout]) -> str:
    if not rollouts:
        return ", nor any other"
    return f"; the newest are: {', '.join(f'{each.id} ({each.spec.voice})' for each in rollouts[-5:])}"
