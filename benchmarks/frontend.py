"""Speed and memory of the text front end: sentences a second, hostile texts, memory over many texts.

Run with the backend's requirements installed: ``python benchmarks/frontend.py [--texts 100000]``. Every text differs,
so that no cache hides the work.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "backends" / "text_frontend"))
sys.path.insert(0, str(REPOSITORY))

from text_backend import memory  # noqa: E402

from tests.text.hostile import CAPPED_CHARS, KINDS, LONG_CHARS, text  # noqa: E402
from tests.text.test_hostile import FRONT_ENDS, seconds  # noqa: E402

_TEMPLATES = [
    "今天是{y}年{m}月{d}日，气温{t}℃，请注意保暖。",
    "我们公司的GDP增长了{p}%，达到{n}亿元。",
    "请在下午{h}:{mi:02d}之前到{r}会议室开会，谢谢。",
    "iPhone {d}的价格是{n}元，比去年便宜了{m}00元。",
    "他说：“你还好吗？”然后就走了{d}步。",
    "The meeting is at {h} am, 请{n}人准时参加。",
    "电话138{n8}，地址是北京市朝阳区{n}号。",
    "床前明月光，疑是地上霜，第{m}遍。",
    "我觉得这个API的{d}.{m}.{h}版设计很好，但是文档不够清楚。",
    "比分是{h}:{m}，中国队赢了！",
]


def sentences(count: int, seed: int) -> list[str]:
    """``count`` mixed sentences, no two alike."""
    chooser = random.Random(seed)
    return [
        chooser.choice(_TEMPLATES).format(
            y=chooser.randint(1900, 2099),
            m=chooser.randint(1, 12), d=chooser.randint(1, 28),
            t=chooser.randint(-20, 40), p=chooser.randint(1, 999) / 10,
            n=chooser.randint(100, 99999), h=chooser.randint(1, 23),
            mi=chooser.randint(0, 59), r=chooser.randint(101, 999), n8=chooser.randint(10_000_000, 99_999_999),
        )
        for _ in range(count)
    ]  # fmt: skip


def resident_mb() -> float:
    """Memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


def hostile(language: str) -> dict[str, dict[str, float]]:
    """Processor time of each hostile text, with the usual limit of characters and without. Nothing is remembered."""
    table: dict[str, dict[str, float]] = {}
    for name in KINDS:
        table[name] = {}
        for length in (CAPPED_CHARS, LONG_CHARS):
            table[name][f"{length}_chars_cpu_ms"] = round(seconds(text(name, length, length), language) * 1000)
            memory.give_back_after(length)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=20_000, help="texts of the memory run")
    arguments = parser.parse_args()
    front_end = FRONT_ENDS["zh"]
    FRONT_ENDS["en"].run("Hello 12.", 1.0, "")
    for sentence in sentences(500, 1):
        front_end.run(sentence, 1.0, "")
    measured = sentences(3000, 2)
    started, wall = time.process_time(), time.perf_counter()
    for sentence in measured:
        front_end.run(sentence, 1.0, "")
    cpu_s = time.process_time() - started
    result: dict[str, object] = {
        "sentences_per_cpu_s": round(len(measured) / cpu_s),
        "sentences_per_s": round(len(measured) / (time.perf_counter() - wall)),
    }
    result["hostile"] = {language: hostile(language) for language in FRONT_ENDS}
    first = resident_mb()
    for start in range(0, arguments.texts, 1000):
        for sentence in sentences(1000, 100 + start):
            front_end.run(sentence, 1.0, "")
        if start == arguments.texts // 4:
            first = resident_mb()
    result["memory_mb"] = {"after_a_quarter": round(first, 1), "at_the_end": round(resident_mb(), 1)}
    print(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
