"""CANN: where it is, its version, and whether the environment leads to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from voxrepo.doctor.machine import Machine
from voxrepo.doctor.report import Finding, ok, problem, warning

HOME_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
USUAL_HOMES = (
    "/usr/local/Ascend/cann",
    "/usr/local/Ascend/ascend-toolkit/latest",
    "/usr/local/Ascend/nnrt/latest",
    "/usr/local/Ascend/nnae/latest",
    "/usr/local/Ascend/latest",
)
ACL_LIBRARY = "libascendcl.so"
_INFO_FILES = ("ascend_toolkit_install.info", "ascend_nnrt_install.info", "ascend_nnae_install.info")


@dataclass(frozen=True)
class Cann:
    """A CANN installation. Texts are "" where not known."""

    home: str
    version: str = ""
    opp_version: str = ""


def find_cann(machine: Machine) -> Cann | None:
    """The CANN that the environment names, else one in a usual place; None if there is none."""
    homes = [home for home in (machine.variable(*HOME_VARIABLES), *USUAL_HOMES) if home]
    home = next((home for home in homes if machine.at(home).is_dir()), None)
    if home is None:
        return None
    opp = machine.variable("ASCEND_OPP_PATH") or f"{home}/opp"
    return Cann(home, _version(machine, home), (machine.values(f"{opp}/version.info") or {}).get("version", ""))


def _version(machine: Machine, home: str) -> str:
    for name in _INFO_FILES:
        for path in (f"{home}/{machine.cpu}-linux/{name}", f"{home}/{name}"):
            version = (machine.values(path) or {}).get("version", "")
            if version:
                return version
    values = machine.values(f"{home}/version.cfg") or {}
    for key in ("version", "toolkit_running_version", "runtime_running_version"):
        # "[7.3.0.1:8.0.RC3]": of the package, then of the release
        version = values.get(key, "").rpartition(":")[2]
        if version:
            return version
    return ""


def check_cann(machine: Machine, cann: Cann | None) -> list[Finding]:
    """Whether CANN is there and the environment leads to it."""
    check = "CANN"
    named = machine.variable(*HOME_VARIABLES)
    if cann is None:
        text = f"{named} (ASCEND_HOME_PATH) is not there." if named else "CANN is not installed."
        return [problem(check, text, "Install the CANN toolkit or nnrt of a release that goes with the driver.")]
    findings = []
    source = set_env(machine, cann.home)
    if not named:
        findings.append(
            problem(
                check,
                f"CANN is in {cann.home}, but its environment is not set in this shell.",
                f"Before `voxrepo serve`, run: source {source}",
            )
        )
    elif not machine.at(named).is_dir():
        findings.append(problem(check, f"ASCEND_HOME_PATH is {named}, which is not there.", f"Run: source {source}"))
    else:
        version = f"CANN {cann.version}" if cann.version else "CANN of an unknown version"
        opp = f", operator package {cann.opp_version}" if cann.opp_version else ""
        findings.append(ok(check, f"{version}{opp} in {cann.home}."))
        findings += _check_operators(machine, source)
    return findings + check_libraries(machine, source, is_set=bool(named))


def _check_operators(machine: Machine, source: str) -> list[Finding]:
    opp = machine.variable("ASCEND_OPP_PATH")
    if opp and machine.at(opp).is_dir():
        return []
    text = f"ASCEND_OPP_PATH is {opp}, which is not there" if opp else "ASCEND_OPP_PATH is not set"
    return [problem("CANN", f"{text}; models with ranges do not load without it (148049).", f"Run: source {source}")]


def set_env(machine: Machine, home: str) -> str:
    """The script that sets the environment of a CANN."""
    for path in (f"{home}/set_env.sh", f"{Path(home).parent}/set_env.sh"):
        if machine.at(path).is_file():
            return path
    return f"{home}/set_env.sh"


def check_libraries(machine: Machine, source: str, *, is_set: bool) -> list[Finding]:
    """Whether the library path leads to CANN's libraries, and to the real ones."""
    check = "library path"
    folders = [folder for folder in machine.variable("LD_LIBRARY_PATH").split(":") if folder]
    stubs = [folder for folder in folders if {"stub", "stubs", "devlib"} & set(Path(folder).parts)]
    if stubs:
        return [
            problem(
                check,
                f"LD_LIBRARY_PATH holds {', '.join(stubs)}, libraries made for building only; with them every call "
                "fails (100039).",
                "Take these folders out; they are for running atc on a machine without an NPU.",
            )
        ]
    if is_set and not any(machine.at(f"{folder}/{ACL_LIBRARY}").exists() for folder in folders):
        return [warning(check, f"No folder of LD_LIBRARY_PATH holds {ACL_LIBRARY}.", f"Run: source {source}")]
    return []
