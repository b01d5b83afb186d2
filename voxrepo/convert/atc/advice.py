"""What ATC printed, turned into advice. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import Field

from voxrepo.convert.onnx_graph import operator_list
from voxrepo.convert.rules import RULES
from voxrepo_contract import yamlfile
from voxrepo_contract.yamlfile import StrictModel

ERRORS_FILE = Path(__file__).parent.parent / "data" / "atc_errors.yaml"

_CODE = re.compile(r"\b(E(?:\d{5}|[A-Z]\d{4}))\b\s*[:\]]")
_STAMP = re.compile(r"^[\s:\]]*(?:\[PID:\s*\d+\]\s*)?(?:\d{4}-\d\d-\d\d[-\s]\d\d:\d\d:\d\d(?:[.:]\d+)*\s*)?")
_OPERATORS = (
    # a node and its type, in the forms that releases print
    re.compile(r"Op \[(?P<node>.+?), optype \[(?P<type>[^\]]+)\]\]"),
    re.compile(r"found for \[(?P<node>.+?)\], optype \[(?P<type>[^\]]+)\]"),
    re.compile(r"[Oo]p:? \[?(?P<node>[^\s\],]+)\]?,? (?:with )?optype:? \[?(?P<type>[^\s\],]+?)\]?[,.\s]"),
    re.compile(r"compile Op \[(?P<node>.+?)\]\.? ?\(optype: \[(?P<type>[^\]]+)\]\)"),
    re.compile(r"Optype \[(?P<type>[^\]]+)\] of Ops kernel"),
    re.compile(r"parser is registered for optype \[?(?P<type>[\w.:]+?)\]?\.?\s*$", re.MULTILINE),
)
_WHERE = (
    re.compile(r"Op ?name \[?(?P<where>.+?)\]? specified in"),
    re.compile(r"--(?P<where>\w+) and --\w+ are mutually"),
    re.compile(r"[Vv]alue \[?(?P<value>.+?)\]? for (?:parameter )?\[?(?:--)?(?P<where>\w+)\]? is (?:invalid|out)"),
    re.compile(r"(?:[Ff]ile|[Pp]ath|model from) \[?(?P<where>/?[\w./~-]*[\w./-]+\.\w+|/[\w./-]+)\]?"),
    re.compile(r"[Pp]arameter \[?(?:--)?(?P<where>\w+)\]?"),
    re.compile(r"--(?P<where>\w+)"),
)
_STEERS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Characters that steer a terminal; advice is printed."""
_GEAR = re.compile(r"_ascend_mbatch_batch_(\d+)$")
_OPERATOR_CODES = frozenset({"E10501", "E13010", "E16002", "E19010", "E40021", "EZ0501", "EZ3002", "EZ3003", "EZ9010"})
"""Codes whose block may name several operators."""


class AtcError(StrictModel):
    """What is known of a code.

    Attributes:
        what: what it means.
        what_to_do: the way out.
    """

    what: str = Field(min_length=1)
    what_to_do: str = Field(min_length=1)


class AtcErrors(StrictModel):
    """The list that ships with voxrepo."""

    errors: dict[str, AtcError]


@dataclass(frozen=True)
class Advice:
    """One thing that went wrong.

    Attributes:
        code: ATC's code; empty where it printed none.
        what: what it means.
        where: node, operator, flag or file that it is about; empty where the text names none.
        what_to_do: the way out.
        text: the line that it was read from.
    """

    code: str
    what: str
    where: str
    what_to_do: str
    text: str

    def sentence(self) -> str:
        """All of it in one line."""
        place = f" ({self.where})" if self.where else ""
        return f"{self.code + ': ' if self.code else ''}{self.what}{place}; {self.what_to_do}"


@cache
def known_errors() -> Mapping[str, AtcError]:
    """Codes that are known."""
    return yamlfile.read(ERRORS_FILE, AtcErrors).errors


def advice_from(output: str) -> list[Advice]:
    """Read ATC's output, its log, or both.

    Args:
        output: as printed; lines that are no errors are skipped.

    Returns:
        Every error once, in order. A code that is not known keeps its text; output without any code gives one entry
        with its last lines, unless it says that ATC succeeded.
    """
    output = _STEERS.sub("\ufffd", output)
    found: dict[tuple[str, str, str], Advice] = {}
    for code, block in _blocks(output):
        for advice in _of_block(code, block):
            found.setdefault((advice.code, advice.where, advice.what_to_do), advice)
    if not found and output.strip() and "ATC run success" not in output:
        lines = [line.strip() for line in output.strip().splitlines() if line.strip()]
        text = " / ".join(lines[-3:])
        what = "atc failed without a code"
        found["", "", ""] = Advice("", what, "", f"read its log; the last it said was: {text}", text)
    return list(found.values())


def _blocks(output: str) -> Iterator[tuple[str, str]]:
    """Every code with the text up to the next one."""
    matches = list(_CODE.finditer(output))
    for match, following in zip(matches, [*matches[1:], None], strict=False):
        text = output[match.end() : following.start() if following else len(output)]
        yield match.group(1), _STAMP.sub("", text, count=1).strip()


def _of_block(code: str, block: str) -> Iterator[Advice]:
    known = known_errors().get(code)
    first = block.splitlines()[0].strip() if block else ""
    if known is None:
        what = first or "an error that is not described here"
        yield Advice(code, what, _where(first), "look the code up in Ascend's list of error codes, and in plog", first)
        return
    named = False
    if code in _OPERATOR_CODES:
        for node, op_type, line in _operators(block):
            named = True
            operator = op_type.rpartition("::")[2]
            place = ", ".join(part for part in (f"operator {operator}", _node(node)) if part)
            yield Advice(code, known.what, place, _operator_advice(code, operator, known), line)
    if not named:
        yield Advice(code, known.what, _where(first), known.what_to_do, first)


def _operators(block: str) -> Iterator[tuple[str, str, str]]:
    seen = set()
    for line in block.splitlines():
        for pattern in _OPERATORS:
            match = pattern.search(line)
            if match is not None:
                node = match.groupdict().get("node") or ""
                if (node, match["type"]) not in seen:
                    seen.add((node, match["type"]))
                    yield node, match["type"], line.strip()
                break


def _node(name: str) -> str:
    """A node as the ONNX graph has it; the compiler copies nodes for every gear."""
    if not name:
        return ""
    gear = _GEAR.search(name)
    plain = _GEAR.sub("", name)
    return f"node {plain}" + (f", gear {int(gear.group(1)) + 1}" if gear else "")


def _operator_advice(code: str, operator: str, known: AtcError) -> str:
    if code in {"E10501", "EZ0501", "E40021"}:
        return known.what_to_do
    rule = next((rule for rule in RULES if operator in rule.operators), None)
    if rule is not None:
        return f"`voxrepo convert` makes it {rule.becomes} where it can; `voxrepo inspect` says why not here"
    replacement = operator_list().replacements.get(operator)
    return f"use {replacement}" if replacement else known.what_to_do


def _where(text: str) -> str:
    for pattern in _WHERE:
        match = pattern.search(text)
        if match is not None:
            value = match.groupdict().get("value")
            return f"{match['where']}={value}" if value else match["where"]
    return ""
