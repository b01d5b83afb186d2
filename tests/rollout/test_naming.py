from __future__ import annotations

import pytest

from tests.rollout.prepared import STABLE
from voxrepo.rollout.decision import Decision
from voxrepo.rollout.naming import find_rollout
from voxrepo.rollout.spec import parse_spec
from voxrepo.rollout.store import Store
from voxrepo_contract.errors import InvalidArgument, NotFound


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "rollouts.db") as opened:
        assert opened.take_lease("me", 60)
        yield opened


def made(store, id_, voice="tiny", *, ended=False):
    spec = parse_spec(f"voice: {voice}\narms: {{a: {{vocoder: 2}}}}\npolicy: {{kind: canary, arm: a}}\n")
    rollout = store.create(spec, STABLE, id_=id_)
    if ended:
        state = rollout.state.model_copy(update={"phase": "rolled_back"})
        store.save(rollout, Decision(state), holder="me")
    return rollout


def test_a_voice_names_the_rollout_that_has_not_ended(store):
    made(store, "20200101-1", ended=True)
    made(store, "20200102-2")
    made(store, "20200103-3", "other")
    assert find_rollout(store, "tiny").id == "20200102-2"
    assert find_rollout(store, "20200103").id == "20200103-3"
    assert find_rollout(store, "20200101-1").id == "20200101-1"


def test_a_voice_without_one_names_its_newest_where_that_is_an_answer(store):
    made(store, "20200101-1", ended=True)
    made(store, "20200102-2", ended=True)
    assert find_rollout(store, "tiny").id == "20200102-2"
    assert find_rollout(store, None).id == "20200102-2"
    with pytest.raises(NotFound, match="no rollout is under way for 'tiny'; the last one, 20200102-2, is rolled_back"):
        find_rollout(store, "tiny", only_active=True)


def test_no_name_is_the_only_one_under_way(store):
    made(store, "20200101-1", "old", ended=True)
    made(store, "20200102-2")
    assert find_rollout(store, None).id == "20200102-2"
    made(store, "20200103-3", "other")
    with pytest.raises(InvalidArgument, match=r"several .*20200102-2 \(tiny\), 20200103-3 \(other\)"):
        find_rollout(store, None)


def test_what_fits_several_or_nothing_is_refused(store):
    with pytest.raises(NotFound, match="no rollout yet"):
        find_rollout(store, None)
    made(store, "20200101-1", ended=True)
    made(store, "20200102-2", ended=True)
    with pytest.raises(InvalidArgument, match="'2020' fits several rollouts"):
        find_rollout(store, "2020")
    with pytest.raises(NotFound, match=r"there is no rollout 'nobody'; the newest are: .*20200102-2 \(tiny\)"):
        find_rollout(store, "nobody")
