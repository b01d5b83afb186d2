"""What a new version has to say before it is taken: ten everyday texts of a language."""

from __future__ import annotations

from pathlib import Path

from voxrepo.repository.voice import VoiceSpec
from voxrepo_contract.errors import ConfigError

MAX_TEXTS = 200
MAX_TEXT_CHARS = 1000

TEXTS: dict[str, tuple[str, ...]] = {
    "en": (
        "Yes.",
        "The train to the coast leaves at a quarter past nine.",
        "Could you tell me where the nearest pharmacy is?",
        "She sells fresh fish, thick soup and crusty bread.",
        "On 3 March 2024 the bill came to 1,250 dollars and 75 cents.",
        "Please hold the line; your call is important to us.",
        "What a beautiful view! I have never seen the mountains so clear.",
        "Judges measure pleasure by the usual azure treasure.",
        "If it rains tomorrow, we will stay inside, read a book, and wait until the sun comes out again.",
        "The package was sent on Monday. It should arrive within two working days. If it does not, write to us.",
    ),
    "zh": (
        "好的。",
        "今天天气不错，我们出去走走吧。",
        "请问最近的地铁站在哪里？",
        "他说四十四只石狮子是死的。",
        "这件衣服的价格是二百五十元，打八折。",
        "您好，您的快递已经到了，请下楼取一下。",
        "太好了！我们终于完成了这个项目。",
        "春天来了，花儿开了，小鸟在树上唱歌。",
        "如果明天下雨，我们就待在家里看书，等太阳出来再去公园。",
        "会议定于下周三上午九点开始。请大家准时参加。如有问题，请提前联系我。",
    ),
}
"""By primary language: lengths from one word to three sentences, a question, an exclamation, numbers, hard sounds."""


def texts_for(spec: VoiceSpec, file: Path | None = None) -> tuple[str, ...]:
    """The texts of a file, one a line; or those of the voice's language; or else the voice's own probe text.

    Raises:
        ConfigError: the file cannot be read, or holds nothing, too many texts or too long ones.
    """
    if file is None:
        return TEXTS.get(spec.language.split("-", maxsplit=1)[0].lower(), (spec.probe_text,))
    if file.exists() and not file.is_file():
        # a pipe or a device may have no end
        raise ConfigError("is no regular file", file=file)
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read as UTF-8 text: {error}", file=file) from error
    texts = tuple(line.strip() for line in lines if line.strip())
    if not 1 <= len(texts) <= MAX_TEXTS:
        raise ConfigError(f"holds {len(texts)} texts; give 1 to {MAX_TEXTS}, one a line", file=file)
    limit = min(MAX_TEXT_CHARS, spec.limits.max_text_chars)
    for number, line in enumerate(lines, start=1):
        if len(line.strip()) > limit:
            raise ConfigError(f"a text of {len(line.strip())} characters; at most {limit}", file=file, line=number)
    return texts
