from __future__ import annotations

import time

import pytest

PAST = [
    "I read the book yesterday.",
    "Yesterday, I read the book.",
    "I read it two years ago.",
    "They read the whole report last week.",
    "Last night we read until midnight.",
    "I read the paper this morning.",
    "I read it when I was young.",
    "I read it as a child.",
    "The students read a poem last Monday.",
    "I have read it.",
    "I have never read it.",
    "I've already read the letter.",
    "Have you read it?",
    "Has anyone ever read the terms?",
    "It was widely read.",
    "The letter is read aloud.",
    "He read the letter.",
    "She never read the news.",
    "I just read your message.",
    "When I first read it, I laughed.",
    "I already read that.",
    "It is the best book I ever read.",
    "He opened the letter and read it.",
    "She sat down and read the news.",
    "Everyone should have read it.",
    "He is well-read.",
]
PRESENT = [
    "I read every day.",
    "They read books.",
    "Read the book.",
    "Just read the label.",
    "First read the manual.",
    "I did not read it yesterday.",
    "I didn't read the book yesterday.",
    "Did you read the book yesterday?",
    "Did the boy read it last week?",
    "What did you read yesterday?",
    "I wanted to read it yesterday.",
    "I have to read it.",
    "Does he read?",
    "Can she read?",
    "Do you ever read novels?",
    "Let her read it.",
    "You should always read the terms.",
    "He can read and write.",
    "She learned to write and read.",
    "The file is read-only.",
    "I will read it tomorrow.",
]


@pytest.mark.parametrize("text", PAST)
def test_the_past_of_read_is_heard(read, text):
    assert "ɹˈɛd" in read(text)


@pytest.mark.parametrize("text", PRESENT)
def test_the_present_of_read_is_heard(read, text):
    assert "ɹˈiːd" in read(text)


def test_each_read_of_a_sentence_is_looked_at_alone(read):
    phonemes = read("I have read it, but I want to read it again. I read a lot.")
    assert phonemes.count("ɹˈɛd") == 1
    assert phonemes.count("ɹˈiːd") == 2


@pytest.mark.parametrize("unit", ["read ", "did read ", "he and read ", "read, ", "read already the "])
def test_many_in_one_sentence_take_linear_time(phonemizer, unit):
    started_s = time.process_time()
    phonemizer.phonemize([unit * (50_000 // len(unit))])
    assert time.process_time() - started_s < 2.0
