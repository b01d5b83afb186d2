from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from text_backend.splitting import Cut, cut_points

ITEMS = st.lists(st.tuples(st.integers(1, 5), st.sampled_from(list(Cut))), max_size=200)


@settings(deadline=None)  # the machine is shared
@given(ITEMS, st.integers(5, 60))
def test_parts_never_cost_more_than_the_limit(items, limit):
    costs, cuts = [c for c, _ in items], [q for _, q in items]
    bounds = [0, *cut_points(costs, cuts, limit), len(items)]
    assert all(a < b for a, b in pairwise(bounds)) or not items
    assert all(sum(costs[a:b]) <= limit for a, b in pairwise(bounds))


def test_does_not_cut_what_fits():
    assert cut_points([1] * 10, [Cut.CLAUSE] * 10, 10) == []


def test_prefers_a_clause_to_a_later_word():
    cuts = [Cut.HARD] * 20
    cuts[5], cuts[8] = Cut.CLAUSE, Cut.WORD
    assert cut_points([1] * 20, cuts, 10)[0] == 6


def test_prefers_a_word_to_the_middle_of_one():
    cuts = [Cut.HARD] * 20
    cuts[7] = Cut.WORD
    assert cut_points([1] * 20, cuts, 10)[0] == 8


def test_does_not_make_a_tiny_part_for_an_early_clause():
    cuts = [Cut.HARD] * 20
    cuts[0], cuts[8] = Cut.CLAUSE, Cut.WORD
    assert cut_points([1] * 20, cuts, 10)[0] == 9


def test_keeps_a_mark_with_its_symbol():
    cuts = [Cut.HARD] * 20
    cuts[9] = Cut.NEVER
    assert cut_points([1] * 20, cuts, 10)[0] == 9


def test_an_item_above_the_limit_stands_alone():
    assert cut_points([1, 50, 1], [Cut.HARD] * 3, 10) == [1, 2]
