"""Reading the container files the way an engine does, as far as the tests need it."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "docker" / "Dockerfile"
COMPOSE = ROOT / "docker" / "compose.yaml"
DOCKERIGNORE = ROOT / ".dockerignore"
SMOKE = ROOT / "scripts" / "docker-smoke.sh"


@dataclass(frozen=True)
class Instruction:
    """One instruction of a Dockerfile, its lines joined."""

    name: str
    value: str

    def words(self) -> list[str]:
        """Arguments, without ``--flags``."""
        return [word for word in shlex.split(self.value) if not word.startswith("--")]

    def flag(self, name: str) -> str | None:
        """Value of ``--name=value``."""
        found = re.search(rf"--{name}=(\S+)", self.value)
        return found.group(1) if found else None


def instructions() -> list[Instruction]:
    """All instructions of the Dockerfile, in order."""
    lines = [line for line in DOCKERFILE.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    pairs = [line.strip().split(None, 1) for line in joined.splitlines() if line.strip()]
    return [Instruction(name.upper(), value) for name, value in pairs]


def final_stage() -> list[Instruction]:
    """The instructions after the last FROM."""
    found = instructions()
    return found[max(index for index, item in enumerate(found) if item.name == "FROM") + 1 :]


def final(name: str) -> Instruction:
    """The last instruction of this name in the final stage, which is the one that counts."""
    return [item for item in final_stage() if item.name == name][-1]


def image_environment() -> dict[str, str]:
    """Variables that the image sets."""
    words = [word for item in final_stage() if item.name == "ENV" for word in item.words()]
    return dict(word.split("=", 1) for word in words)


def health_command() -> list[str]:
    """The program of the health check and its arguments."""
    command: list[str] = json.loads(final("HEALTHCHECK").value.split("CMD", 1)[1])
    return command


def service() -> dict[str, Any]:
    """The service ``voxrepo`` of the compose file."""
    found: dict[str, Any] = compose()["services"]["voxrepo"]
    return found


def compose() -> dict[str, Any]:
    """The compose file."""
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return found


def seconds(text: str) -> float:
    """A duration such as ``1m15s``."""
    units_s = {"h": 3600.0, "m": 60.0, "s": 1.0}
    parts = re.findall(r"(\d+)([hms])", text)
    assert parts and "".join(map("".join, parts)) == text, f"{text} is not a duration"
    return sum(int(number) * units_s[unit] for number, unit in parts)
