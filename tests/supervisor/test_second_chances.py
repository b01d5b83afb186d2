"""When what was given up is tried again, and with what."""

from __future__ import annotations

from tests.repository.tiny import make_voice
from voxrepo.repository.arms import check_arm
from voxrepo.repository.check import CheckedVoice, Inventory, take_inventory
from voxrepo.repository.layout import Layout
from voxrepo.supervisor.second_chances import FIRST_WAIT_S, SecondChances


def voice_of(layout: Layout) -> CheckedVoice:
    make_voice(layout, "one")
    return take_inventory(layout).voices["one"]


def test_other_versions_are_tried_at_once_and_have_their_own_times(layout: Layout) -> None:
    voice = voice_of(layout)
    other = check_arm(layout, voice, "next", voice.spec.versions).as_voice()
    chances = SecondChances()
    chances.give_up(Inventory(voices={"one": voice}), 0.0)
    first = chances.due(FIRST_WAIT_S)
    assert first is not None
    assert chances.due(FIRST_WAIT_S + 1) is None
    chances.try_with(other, FIRST_WAIT_S + 2)
    again = chances.due(FIRST_WAIT_S + 2)
    assert again is first
    assert again.what.voices["one"] is other
    assert chances.due(3 * FIRST_WAIT_S) is None
    assert chances.due(3 * FIRST_WAIT_S + 2) is again
    chances.succeeded(again, 1000.0)
    assert chances.due(1e9) is None


def test_what_was_never_served_may_be_tried_with_other_versions(layout: Layout) -> None:
    voice = voice_of(layout)
    chances = SecondChances()
    chances.try_with(voice, 5.0)
    absent = chances.due(5.0)
    assert absent is not None
    assert absent.what.voices == {"one": voice}
