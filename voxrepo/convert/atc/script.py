"""A script that runs the compiler where it is, for machines on which it is not."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from voxrepo_contract.errors import ConfigError
from voxrepo_contract.yamlfile import write_text_atomically

SCRIPT = "convert.sh"
_PLAN_SUFFIX = ".atc.json"
_FIRST_LINE = (
    "# Compiles the graphs of this folder with Ascend's compiler. Run it on a machine with CANN, with the folder"
)


@dataclass(frozen=True)
class ScriptPart:
    """What the script does for one graph.

    Attributes:
        name: of the graph.
        soc: chip.
        arguments: of ``atc``.
        sha256: of every file that it reads, by name beside the script.
        before: commands to run first, each a list of words.
        note: sentences about it, put into the script as a comment.
    """

    name: str
    soc: str
    arguments: tuple[str, ...]
    sha256: Mapping[str, str]
    before: tuple[tuple[str, ...], ...] = ()
    note: str = ""


def add_to_script(folder: Path, part: ScriptPart) -> Path:
    """Put a graph into the folder's script; the script is written anew from all graphs there are.

    Raises:
        OSError: the folder cannot be written.
        ConfigError: a file of the script's name is there that is no such script.
    """
    check_is_ours(folder / SCRIPT)
    plan = folder / f"{part.name}{_PLAN_SUFFIX}"
    write_text_atomically(plan, json.dumps(asdict(part), indent=1, sort_keys=True) + "\n")
    parts = [_read(file) for file in sorted(folder.glob(f"*{_PLAN_SUFFIX}"))]
    script = folder / SCRIPT
    write_text_atomically(script, script_text(parts))
    script.chmod(0o755)
    return script


def check_is_ours(script: Path) -> None:
    """Refuse to write over a script that somebody else wrote.

    Raises:
        ConfigError: it is no script for the compiler.
    """
    if script.exists() and _FIRST_LINE not in script.read_bytes()[:1000].decode("utf-8", "replace"):
        raise ConfigError("is there, and is no script of voxrepo; give -o a file in another folder", file=script)


def known_sums(folder: Path, name: str) -> Mapping[str, str]:
    """Digests of the files that an earlier run left for a graph, by file; empty where there was none."""
    try:
        return _read(folder / f"{name}{_PLAN_SUFFIX}").sha256
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def _read(file: Path) -> ScriptPart:
    data = json.loads(file.read_text(encoding="utf-8"))
    data["arguments"] = tuple(data["arguments"])
    data["before"] = tuple(tuple(words) for words in data["before"])
    return ScriptPart(**data)


def script_text(parts: Sequence[ScriptPart]) -> str:
    """The script for these graphs. Every word is quoted, files are checked, and what is half made is removed."""
    sums = {name: digest for part in parts for name, digest in part.sha256.items()}
    programs = dict.fromkeys(["atc", *(words[0] for part in parts for words in part.before)])
    lines = [
        "#!/usr/bin/env bash",
        _FIRST_LINE,
        "# copied there as it is; it may be run again, and builds everything anew.",
        "set -euo pipefail",
        'cd "$(dirname "${BASH_SOURCE[0]}")"',
        "",
        "if ! command -v atc >/dev/null; then",
        '    for env in "${ASCEND_HOME_PATH:-}/set_env.sh" \\',
        '        /usr/local/Ascend/ascend-toolkit/set_env.sh "$HOME/Ascend/ascend-toolkit/set_env.sh"; do',
        '        if [ -r "$env" ]; then',
        "            set +u",
        "            # shellcheck disable=SC1090",
        '            . "$env"',
        "            set -u",
        "            break",
        "        fi",
        "    done",
        "fi",
        f"programs=({' '.join(map(shlex.quote, programs))})",
        'for program in "${programs[@]}"; do',
        '    if ! command -v "$program" >/dev/null; then',
        '        echo "$program is not on PATH: install CANN, then run: source .../ascend-toolkit/set_env.sh" >&2',
        "        exit 1",
        "    fi",
        "done",
        "",
        "if ! sha256sum --check --quiet - <<'EOF'",
        *(f"{digest}  {name}" for name, digest in sorted(sums.items())),
        "EOF",
        "then",
        '    echo "a file of this folder is missing or was changed; copy the folder again" >&2',
        "    exit 1",
        "fi",
    ]
    for part in parts:
        lines += ["", *_build_lines(part)]
    lines += [
        "",
        "echo",
        f"echo {shlex.quote('built: ' + ' '.join(f'{part.name}.om' for part in parts))}",
        'if [ -r README.md ]; then echo "README.md says how to bring them back"; fi',
        "",
    ]
    return "\n".join(lines)


def _build_lines(part: ScriptPart) -> list[str]:
    name = shlex.quote(part.name)
    words = ["atc", *map(shlex.quote, part.arguments)]
    failed = shlex.quote(f"{part.name}: atc failed; on a machine with voxrepo run: voxrepo inspect {part.name}.log")
    missing = shlex.quote(f"{part.name}: atc left no file; see {part.name}.log")
    return [
        f"# {part.name}, for {part.soc}",
        *(f"# {line}" for line in part.note.splitlines()),
        f"rm -f {name}.om {name}_linux_*.om",
        *(" ".join(map(shlex.quote, words)) for words in part.before),
        f"if ! {' '.join(words[:1])} \\",
        *(f"    {word} \\" for word in words[1:]),
        f"    2>&1 | tee {name}.log; then",
        f"    rm -f {name}.om {name}_linux_*.om",
        f"    echo {failed} >&2",
        "    exit 1",
        "fi",
        f"if [ ! -s {name}.om ]; then",
        "    # a file that is bound to this kind of host gets a longer name",
        f"    found=({name}_linux_*.om)",
        '    if [ ! -s "${found[0]}" ]; then',
        f"        echo {missing} >&2",
        "        exit 1",
        "    fi",
        f'    mv "${{found[0]}}" {name}.om',
        "fi",
    ]
