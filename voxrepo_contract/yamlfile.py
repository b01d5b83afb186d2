"""YAML files read into pydantic models, with the line of each mistake.

``yaml.safe_load`` forgets where a value stood and lets a repeated key win silently; both matter to whoever edits
these files by hand.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from voxrepo_contract.errors import ConfigError

MAX_FILE_BYTES = 512 * 1024
"""A stage with thousands of speakers needs a tenth of this; PyYAML reads about 90 kB/s, so more would stall a start."""

Location = tuple[str | int, ...]
ModelT = TypeVar("ModelT", bound="StrictModel")


class StrictModel(BaseModel):
    """Base of all file schemas: unknown keys are errors, values are not coerced from other types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Loader(yaml.SafeLoader):
    """``SafeLoader`` without what these files never need and a reader can be hurt by, and with a line in every error.

    Aliases let a few lines stand for gigabytes, and a merge key hides which of two values counts.
    """

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.get_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem=f"the alias *{event.anchor} is not allowed here; write the value out",
                problem_mark=event.start_mark,
            )
        node: yaml.Node | None = super().compose_node(parent, index)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node.tag == "tag:yaml.org,2002:merge":
            raise yaml.MarkedYAMLError(
                problem="the merge key << is not allowed here; write the keys out", problem_mark=node.start_mark
            )
        try:
            return super().construct_object(node, deep)
        except ValueError as error:
            raise yaml.MarkedYAMLError(problem=str(error), problem_mark=node.start_mark) from error

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Leaves merge keys where they are, to be refused."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        """Write a value out each time it occurs: the reader refuses aliases."""
        return True


def _lines_of(node: yaml.Node | None, at: Location, lines: dict[Location, int], file: Path) -> None:
    if node is None:
        return
    lines[at] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key in seen:
                raise ConfigError(
                    f"the key {key!r} is given twice; remove one",
                    file=file,
                    line=key_node.start_mark.line + 1,
                )
            seen.add(key)
            here: Location = (*at, key)
            _lines_of(value_node, here, lines, file)
            lines[here] = key_node.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _lines_of(item, (*at, index), lines, file)


def _line_for(location: Location, lines: dict[Location, int]) -> int | None:
    # pydantic adds union tags and field aliases that are not in the file: pass over parts that lead to no known place
    known: Location = ()
    for part in location:
        if (*known, part) in lines:
            known = (*known, part)
    return lines.get(known)


def _describe(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"]) or "the file"
    text = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        return f"{where}: unknown key; remove it or correct its spelling"
    if error["type"] == "missing":
        return f"{where}: required key is missing"
    value = repr(error.get("input"))
    shown = value if len(value) <= 80 else value[:77] + "..."
    return f"{where}: {text} (got {shown})"


def parse(text: str, model: type[ModelT], file: Path) -> ModelT:
    """Parse ``text`` as YAML and validate it.

    Raises:
        ConfigError: with file, line and key of the first mistake and the number of further ones.
    """
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        raise ConfigError(
            f"holds the character {error.character:#06x}, which YAML does not allow",
            file=file,
            line=text.count("\n", 0, error.position) + 1,
        ) from error
    try:
        node = loader.get_single_node()
        lines: dict[Location, int] = {}
        _lines_of(node, (), lines, file)
        data = loader.construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise ConfigError(
            f"not valid YAML: {error.problem}", file=file, line=None if mark is None else mark.line + 1
        ) from error
    except RecursionError as error:
        raise ConfigError("not valid YAML: nested too deeply", file=file) from error
    finally:
        loader.dispose()
    if not isinstance(data, dict):
        raise ConfigError("the file must hold a mapping of keys to values", file=file, line=1)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        # a misspelt key shows as one unknown and one missing; the unknown one has a line
        first = min(problems, key=lambda problem: problem["type"] == "missing")
        raise ConfigError(_describe(first) + more, file=file, line=_line_for(tuple(first["loc"]), lines)) from error


def read(file: Path, model: type[ModelT]) -> ModelT:
    """Read and validate a YAML file.

    Raises:
        ConfigError: the file is missing, too large, not UTF-8, not YAML, or does not fit the schema.
    """
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError as error:
        raise ConfigError("the file is missing", file=file) from error
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=file) from error
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigError(f"larger than {MAX_FILE_BYTES} bytes; is this the right file?", file=file)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ConfigError("not valid UTF-8; save the file as UTF-8", file=file, line=line) from error
    return parse(text, model, file)


def line_of(file: Path, where: str) -> int | None:
    """The line of a key of a YAML file, for faults that are found only when it is held against something else.

    Args:
        file: that was read before without a fault.
        where: keys and indices parted by dots. If there is no such key, the nearest one above it counts.
    """
    loader = _Loader(file.read_text(encoding="utf-8-sig"))
    try:
        lines: dict[Location, int] = {}
        _lines_of(loader.get_single_node(), (), lines, file)
    finally:
        loader.dispose()
    parts: list[str | int] = [int(part) if part.isdigit() else part for part in where.split(".")]
    return _line_for(tuple(parts), lines)


def dump(model: StrictModel) -> str:
    """Render a model as YAML, keys in schema order, ``None`` left out."""
    data = model.model_dump(mode="json", exclude_none=True)
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def write(file: Path, model: StrictModel) -> None:
    """Write a model atomically: a reader sees the old file or the new one, never half of it."""
    write_text_atomically(file, dump(model))


def write_text_atomically(file: Path, text: str) -> None:
    """Replace ``file`` by ``text`` (UTF-8) in one step, synced to disk."""
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
