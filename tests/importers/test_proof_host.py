from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from voxrepo.importers.proof_host import frames_per_id, regulate, windows
from voxrepo.importers.proof_texts import TEXT_LENGTHS_IDS, proof_texts

PLAN = st.tuples(st.integers(1, 3000), st.integers(0, 40)).flatmap(
    lambda size: st.tuples(st.just(size[0]), st.integers(2 * size[1] + 1, 200), st.just(size[1]))
)


@given(PLAN)
def test_windows_keep_every_frame_once_and_only_where_it_is_exact(plan: tuple[int, int, int]):
    frames, window, overlap = plan
    kept: list[int] = []
    for w in windows(frames, window, overlap):
        assert 0 <= w.start <= w.keep_from < w.keep_to <= w.stop <= frames
        assert w.stop - w.start == min(window, frames)
        assert w.keep_from == 0 or w.keep_from - w.start >= overlap
        assert w.keep_to == frames or w.stop - w.keep_to >= overlap
        kept.extend(range(w.keep_from, w.keep_to))
    assert kept == list(range(frames))


def test_windows_follow_the_shared_convention():
    plan = [(w.start, w.stop, w.keep_from, w.keep_to) for w in windows(300, 128, 11)]
    assert plan == [(0, 128, 0, 117), (106, 234, 117, 223), (172, 300, 223, 300)]


def test_durations_are_scaled_rounded_up_and_clamped():
    durations = np.asarray([0.0, 0.2, 1.0, 1.1, 500.0], dtype=np.float32)
    assert frames_per_id(durations, 1.0, 1.0, 200).tolist() == [1, 1, 1, 2, 200]
    assert frames_per_id(durations, 1.5, 0.5, 200).tolist() == [1, 1, 3, 4, 200]


def test_the_regulator_is_a_product_with_a_matrix_of_zeros_and_ones():
    generator = np.random.default_rng(0)
    mean, log_scale = generator.standard_normal((2, 4, 3), dtype=np.float32)
    frames = np.asarray([2, 1, 3])
    noise = generator.standard_normal((4, 6), dtype=np.float32)
    path = np.zeros((3, 6), dtype=np.float32)
    for row, (start, stop) in enumerate([(0, 2), (2, 3), (3, 6)]):
        path[row, start:stop] = 1.0
    expected = mean @ path + noise * np.exp(log_scale @ path) * 0.5
    np.testing.assert_allclose(regulate(mean, log_scale, frames, noise, 0.5), expected, rtol=1e-5)


ENGLISH = {"_": [0], "^": [1], "$": [2], " ": [3], **{s: [10 + i] for i, s in enumerate("abdefiklmnopstuvz")}}
OTHER = {"_": [0], "^": [1], "$": [2], "한": [5], "글": [6], "ㄱㄴ": [7, 8]}


def test_proof_texts_are_framed_and_padded_as_in_piper():
    stream = proof_texts(ENGLISH, 1)
    texts = [next(stream) for _ in range(10)]
    assert [len(text.ids) for text in texts] == list(TEXT_LENGTHS_IDS)
    for text in texts:
        assert text.ids[0] == 1
        assert text.ids[-1] == 2
        assert set(text.ids[1:-1:2]) == {0}
        assert not {0, 1, 2} & set(text.ids[2:-1:2])
    assert any(3 in text.ids for text in texts)
    assert len({text.ids for text in texts}) == 10


def test_proof_texts_are_always_the_same_and_use_what_the_voice_has():
    again = proof_texts(ENGLISH, 1)
    assert [next(again) for _ in range(12)] == [t for t, _ in zip(proof_texts(ENGLISH, 1), range(12), strict=False)]
    assert set(next(proof_texts(OTHER, 1)).ids) <= {0, 1, 2, 5, 6}


def test_proof_texts_let_many_speakers_speak():
    stream = proof_texts(ENGLISH, 9)
    speakers = [next(stream).speaker_id for _ in range(10)]
    assert speakers[:2] == [0, 8]
    assert len(set(speakers)) >= 7
