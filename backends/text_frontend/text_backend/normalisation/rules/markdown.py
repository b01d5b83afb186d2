"""Layout that is written as characters: Markdown, simple HTML, escapes. Counted as ``markup``, never spoken."""

from __future__ import annotations

import html
import re

from text_backend import dropping
from text_backend.mapped import Edit, MappedText
from text_backend.normalisation.rules.base import HAN

_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[^\n`]*$", re.MULTILINE)
_TABLE_RULE = re.compile(r"^[ \t]*\|?[ \t]*:?-{3,}:?[ \t]*(?:\|[ \t:-]*)*$", re.MULTILINE)
_TABLE_ROW = re.compile(r"^[ \t]*\|[^\n]*\|[ \t]*$", re.MULTILINE)
_RULED_LINE = re.compile(r"([-=*_~#+|<>^])\1{2,}")
_LINE_MARK = re.compile(
    "^[ \\t]*(?:#{1,6}|[*+\u2022\u2023\u25e6\u25aa\u25cf\u25a0\u25cb\u00b7-]{1,3}"
    "|>{1,3})[ \\t]+(?:\\[[ xX]\\][ \\t]+)?",
    re.MULTILINE,
)
_IMAGE = re.compile(r"!\[([^\[\]\n]{0,200})\]\([^()\s]{0,500}\)")
_LINK = re.compile(r"\[([^\[\]\n]{1,200})\](\([^()\s]{1,500}(?:[ \t]\"[^\"\n]{0,100}\")?\))")
_FOOTNOTE = re.compile(r"\[\^[A-Za-z0-9]{1,16}\]:?")
_TAG = re.compile(
    r"</?(?:a|b|i|u|s|p|br|hr|em|strong|code|pre|ul|ol|li|div|span|table|thead|tbody|tr|td|th|h[1-6]|img|sub|sup|"
    r"speak|voice|prosody|emphasis|blockquote)(?:[ \t][^<>\n]{0,200})?/?>",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"<!--[^<>]{0,500}-->")
_ENTITY = re.compile(r"&(?:[A-Za-z]{2,8}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});")
_ESCAPED_BREAK = re.compile(r"\\r\\n|\\[nrt](?![a-z]{0,20}[\\/.])")
_PATH_BEFORE = re.compile(r"[A-Za-z]:\\\S{0,60}\Z|\\\\\S{0,60}\Z")
_ESCAPED_MARK = re.compile(r"\\([*_`~#\[\]()>!|-])")
_EMPHASIS_OPENS = re.compile("(?<![\\w*`)])[*`]{1,3}(?=[\\w\"'(\\u201c\\u2018\u300a])")
_EMPHASIS_CLOSES = re.compile(
    "(?<=[\\w.,;:!?)\"'\\u201d\\u2019\\u2026\u3002\uff0c\uff01\uff1f\u300b%])[*`]{1,3}(?![\\w*`(])"
)
_HAN_EMPHASIS = re.compile("([*`]{1,3})(?=[^*`\\s])([^*`\\n]{1,200}[^*`\\s]|[^*`\\s])\\1")
_STRUCK = re.compile(r"~~(?=[^~\s])([^~\n]{1,200})~~")
_UNDERLINED = re.compile(r"(?<![A-Za-z0-9_])(_{1,2})(?=[^\s_])([^_\n]{1,200})(_{1,2})(?![A-Za-z0-9_])")
_TOPIC = re.compile(f"(?<![\\w#&])#(?=[^#\\s]{{0,60}}[{HAN}])([^#\\s][^#\\n]{{0,60}})#(?![\\d#])", re.ASCII)
_NUMBERED = re.compile("^([ \\t]*\\d{1,3})([.)\uff0e][ \\t]*)(?=[^\\d\\s])", re.MULTILINE)


def strip_markup(text: MappedText, language: str) -> MappedText:
    """Take the marks away and leave what they mark.

    Args:
        text: the whole text, line ends included.
        language: code of the voice; a Mandarin voice says the number of a list item with a pause after it.
    """
    characters = text.text
    if "\\" in characters:
        text = _unescape(text)
    if "&" in characters:
        text = text.sub(_ENTITY, _entity)
    if "<" in characters:
        text = text.delete(_COMMENT, dropping.MARKUP).delete(_TAG, dropping.MARKUP)
    if "[" in characters:
        text = text.edit([Edit(*m.span(), m.group(1) and f" {m.group(1)} ", dropping.MARKUP)
                          for m in _IMAGE.finditer(text.text)])  # fmt: skip
        text = _links(text)
        text = text.delete(_FOOTNOTE, dropping.MARKUP)
    if "`" in characters or "~~~" in characters:
        text = text.delete(_FENCE, dropping.MARKUP)
    if "|" in characters:
        text = text.delete(_TABLE_RULE, dropping.MARKUP)
        text = _cells(text)
    text = text.delete(_LINE_MARK, dropping.MARKUP)
    text = _ruled_lines(text)
    if "~~" in characters:
        text = _marks(text, _STRUCK, 2)
    if "_" in characters:
        text = _underlined(text)
    if "*" in characters or "`" in characters:
        if language == "zh":
            text = _han_emphasis(text)
        text = text.delete(_EMPHASIS_OPENS, dropping.MARKUP).delete(_EMPHASIS_CLOSES, dropping.MARKUP)
    if language == "zh" and "#" in characters:
        text = _topics(text)
    if language == "zh":
        text = text.edit([Edit(*m.span(2), "\u3001") for m in _NUMBERED.finditer(text.text)])
    return text


def _topics(text: MappedText) -> MappedText:
    """The marks of #话题#, which name a topic and are not said."""
    edits: list[Edit] = []
    for match in _TOPIC.finditer(text.text):
        edits += [Edit(at, at + 1, "", dropping.MARKUP) for at in (match.start(), match.end() - 1)]
    return text.edit(edits)


def _ruled_lines(text: MappedText) -> MappedText:
    edits: list[Edit] = []
    for match in _RULED_LINE.finditer(text.text):
        start, end = match.span()
        parts_words = start and end < len(text) and not (text.text[start - 1].isspace() or text.text[end].isspace())
        if not parts_words:
            edits.append(Edit(start, end, "", dropping.MARKUP))
            continue
        # a dash is a pause; of other signs a blank is left, which parts the words
        edits.append(Edit(start, end, "\u2014" if match.group(1) == "-" else " "))
    return text.edit(edits)


def _unescape(text: MappedText) -> MappedText:
    edits: list[Edit] = []
    for match in _ESCAPED_BREAK.finditer(text.text):
        if not _PATH_BEFORE.search(text.text[max(0, match.start() - 64) : match.start()]):
            edits.append(Edit(match.start(), match.end(), " " if match.group() == r"\t" else "\n"))
    text = text.edit(edits)
    return text.edit([Edit(m.start(), m.start() + 1, "", dropping.MARKUP) for m in _ESCAPED_MARK.finditer(text.text)])


def _entity(match: re.Match[str]) -> str | None:
    plain = html.unescape(match.group())
    return None if plain == match.group() or "\0" in plain else plain


def _links(text: MappedText) -> MappedText:
    edits: list[Edit] = []
    for match in _LINK.finditer(text.text):
        edits.append(Edit(match.start(), match.start() + 1, "", dropping.MARKUP))
        edits.append(Edit(match.end(1), match.end(), "", dropping.MARKUP))
    return text.edit(edits)


def _cells(text: MappedText) -> MappedText:
    edits: list[Edit] = []
    for row in _TABLE_ROW.finditer(text.text):
        bars = [row.start() + at for at, character in enumerate(row.group()) if character == "|"]
        edits.append(Edit(bars[0], bars[0] + 1, "", dropping.MARKUP))
        edits += [Edit(bar, bar + 1, ",") for bar in bars[1:-1]]
        if len(bars) > 1:
            edits.append(Edit(bars[-1], bars[-1] + 1, "", dropping.MARKUP))
    return text.edit(edits)


def _marks(text: MappedText, pattern: re.Pattern[str], size: int) -> MappedText:
    edits: list[Edit] = []
    for match in pattern.finditer(text.text):
        edits.append(Edit(match.start(), match.start() + size, "", dropping.MARKUP))
        edits.append(Edit(match.end() - size, match.end(), "", dropping.MARKUP))
    return text.edit(edits)


def _underlined(text: MappedText) -> MappedText:
    edits: list[Edit] = []
    for match in _UNDERLINED.finditer(text.text):
        edits += [Edit(*match.span(1), "", dropping.MARKUP), Edit(*match.span(3), "", dropping.MARKUP)]
    return text.edit(edits)


def _han_emphasis(text: MappedText) -> MappedText:
    """Marks inside Chinese, where no blank parts a marked word from the next."""
    edits: list[Edit] = []
    for match in _HAN_EMPHASIS.finditer(text.text):
        size = len(match.group(1))
        if match.group(2).isascii() and match.group(1) == "*":
            continue  # a*b*c multiplies
        edits.append(Edit(match.start(), match.start() + size, "", dropping.MARKUP))
        edits.append(Edit(match.end() - size, match.end(), "", dropping.MARKUP))
    return text.edit(edits)
