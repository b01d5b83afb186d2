from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from text_backend.espeak import EspeakClient, find_interpreter

from voxrepo_contract.errors import ConfigError, Internal, Unavailable

pytest.importorskip("piper")

# sent past the limits of espeak_limits.py: espeak-ng itself crashes on it
DEADLY = "A." * 2048


@pytest.fixture
def client():
    client = EspeakClient("en-us")
    client.start()
    yield client
    client.close()


def pid_of(client: EspeakClient) -> int:
    assert client.pid is not None
    return client.pid


def wait_until(condition, timeout_s: float = 5.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "condition not met in time"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except FileNotFoundError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


def test_answers_in_the_order_of_the_texts(client):
    answers = client.phonemize(["Hello.", "World?"])
    assert [clauses[0].terminator for clauses in answers] == [".", "?"]
    assert all(clauses[0].ends_sentence for clauses in answers)


def test_no_texts_need_no_round_trip(client):
    assert client.phonemize([]) == []


def test_a_message_larger_than_the_pipe_passes(client):
    texts = [f"Sentence {n} with caf\u00e9." for n in range(8000)]
    answers = client.phonemize(texts)
    assert len(answers) == len(texts)
    assert answers[17] == client.phonemize([texts[17]])[0]


def test_a_text_that_kills_the_process_fails_alone(client):
    expected = client.phonemize(["Hello there."])
    for _ in range(20):
        first = client.pid
        try:
            client.phonemize([DEADLY])
        except Unavailable as error:
            assert "SIGSEGV" in str(error)
            break
    else:
        pytest.skip("espeak-ng writes outside its memory with this text, and this time nothing came of it")
    assert client.phonemize(["Hello there."]) == expected
    assert client.pid != first


def test_a_process_killed_at_work_costs_that_request_alone(client):
    expected = client.phonemize(["Hello there."])
    first = pid_of(client)
    killer = threading.Timer(0.1, os.kill, (first, signal.SIGKILL))
    killer.start()
    with pytest.raises(Unavailable, match="SIGKILL"):
        client.phonemize([f"Sentence {n} with some words to read." for n in range(60_000)])
    assert client.phonemize(["Hello there."]) == expected
    assert client.pid != first


def test_is_restarted_after_it_was_killed_between_requests(client):
    killed = pid_of(client)
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: not is_running(killed))
    assert client.phonemize(["Hello."])


def test_a_hanging_process_is_replaced_in_time():
    client = EspeakClient("en-us", answer_timeout_s=0.5)
    client.start()
    try:
        hung = pid_of(client)
        os.kill(hung, signal.SIGSTOP)
        started = time.monotonic()
        with pytest.raises(Unavailable, match=r"did not answer within 0\.5 s"):
            client.phonemize(["Hello."])
        assert time.monotonic() - started < 2.0
        assert not is_running(hung)
        assert client.phonemize(["Hello."])
    finally:
        client.close()


def test_a_text_that_the_bridge_refuses_fails_alone(client):
    first = client.pid
    with pytest.raises(Internal, match="null character"):
        client.phonemize(["a\0b"])
    assert client.phonemize(["Hello."])
    assert client.pid == first


def test_answers_do_not_depend_on_what_came_before(client):
    texts = ["Hello there.", 'He said "wait', "\u0939\u093f\u0928\u094d\u0926\u0940", "(open", "<speak>", "&lt;"]
    alone = {text: client.phonemize([text])[0] for text in texts}
    for first in texts:
        for second in texts:
            assert client.phonemize([first, second]) == [alone[first], alone[second]]


def test_threads_take_turns(client):
    wrong: list[int] = []

    def ask(n: int) -> None:
        text = f"This is number {n}."
        expected = client.phonemize([text])
        wrong.extend(n for _ in range(50) if client.phonemize([text]) != expected)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first_words = [client.phonemize([f"This is number {n}."])[0][0].phonemes for n in range(4)]
    assert wrong == []
    assert len(set(first_words)) == 4


def test_names_the_extra_where_piper_is_missing(tmp_path):
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec "{find_interpreter()}" -S "$@"\n', encoding="utf-8")  # -S: no site-packages
    bare.chmod(0o755)
    with pytest.raises(ConfigError, match=r"pip install 'voxrepo\[espeak\]'.*GPL-3\.0"):
        EspeakClient("en-us", interpreter=str(bare)).start()


def test_names_a_voice_that_espeak_does_not_have():
    with pytest.raises(ConfigError, match="tlh-x-none"):
        EspeakClient("tlh-x-none").start()


def test_a_program_that_is_no_phonemizer_is_reported(tmp_path):
    with pytest.raises(Unavailable, match="ended with status 1 while starting"):
        EspeakClient("en-us", interpreter="/bin/false").start()


def test_finds_the_interpreter_of_its_environment_where_python_is_embedded(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/opt/tritonserver/bin/stub")
    found = find_interpreter()
    prefix = subprocess.run([found, "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True, check=True)
    assert prefix.stdout.strip() == sys.prefix


def test_says_so_where_no_interpreter_is_found(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="no Python interpreter"):
        find_interpreter()


@pytest.mark.parametrize("busy", [False, True])
def test_dies_with_its_owner(busy):
    script = textwrap.dedent(
        f"""
        import sys; sys.path[:0] = {sys.path!r}
        from text_backend.espeak import EspeakClient
        client = EspeakClient("en-us"); client.start()
        print(client.pid, flush=True)
        sys.stdin.read()
        """
    )
    owner = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert owner.stdout is not None
    worker = int(owner.stdout.readline())
    assert is_running(worker)
    if busy:
        os.kill(worker, signal.SIGSTOP)  # cannot notice the end of its input
    owner.kill()
    owner.communicate()
    wait_until(lambda: not is_running(worker))


def test_close_leaves_no_process(client):
    pid = client.pid
    client.close()
    assert not is_running(pid)
    client.close()
