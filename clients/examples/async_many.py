"""Eight texts at once with asyncio; the files are written in the order in which the answers come.

python async_many.py FOLDER [voice] [url]
"""

import asyncio
import sys
from pathlib import Path

from voxrepo_client import AsyncVoice, VoxrepoClientError

TEXTS = [
    "The first of eight texts that are spoken at the same time.",
    "A short one.",
    "The third asks for nothing in particular, and gets it.",
    "Number four is on its way.",
    "Five people were waiting at the stop when the bus came at last.",
    "Six.",
    "Seven hills surround the town, and on each of them stands a tower.",
    "With this one, the number eight, the list is complete.",
]


async def speak(voice: AsyncVoice, number: int, text: str, folder: Path) -> None:
    speech = await voice.synthesize(text, seed=number, timeout_s=60)
    path = folder / f"{number}.wav"
    await asyncio.to_thread(speech.write, path)
    print(f"{path}: {speech.duration_s:.2f} s")


async def main(folder: Path, name: str, url: str) -> None:
    async with AsyncVoice(name, url) as voice:
        await asyncio.gather(*(speak(voice, i, text, folder) for i, text in enumerate(TEXTS, start=1)))


if __name__ == "__main__":
    arguments = dict(enumerate(sys.argv))
    try:
        asyncio.run(main(Path(arguments[1]), arguments.get(2, "en-joe"), arguments.get(3, "grpc://localhost:8001")))
    except VoxrepoClientError as error:
        sys.exit(f"{type(error).__name__}: {error}")
