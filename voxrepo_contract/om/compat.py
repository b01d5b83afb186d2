"""Why an OM file will not run somewhere: sentences, made before anything is loaded.

CANN refuses the same files with codes that say little (500002, 507009, E19999), or fails at the first run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from voxrepo_contract.om.cmdline import options_of
from voxrepo_contract.om.model import OmFile

_AMBIGUOUS_SOC = "Ascend910B"
"""A first-generation chip by its name; people write it for the 910B1 to 910B4, which are other chips."""


@dataclass(frozen=True)
class Host:
    """The machine that the model would run on. Texts are "" where not known.

    Attributes:
        os: as CANN writes it, e.g. ``linux``.
        cpu: e.g. ``aarch64``, ``x86_64``.
        virtual_device: whether the device is a slice of a chip (vNPU); None if not known.
    """

    os: str = ""
    cpu: str = ""
    virtual_device: bool | None = None


def check_fits(om: OmFile, soc: str, opp_version: str = "", host: Host | None = None) -> tuple[str, ...]:
    """What speaks against running ``om`` on a device; empty if nothing is known to.

    Args:
        om: the file.
        soc: the device's chip as ``acl.get_soc_name()`` gives it, "" if not known.
        opp_version: version of the operator package installed (``Version=`` in ``opp/version.info``), "" if not known.
        host: the machine.

    Returns:
        Sentences without the file's name.
    """
    host = host or Host()
    problems = [
        _kind_problem(om),
        _soc_problem(om, soc),
        _virtual_problem(om, host),
        _opp_problem(om, opp_version),
        _host_problem(om, host),
    ]
    return tuple(problem for problem in problems if problem)


def rebuild_command(om: OmFile, changes: Mapping[str, str]) -> str:
    """The ATC command to build the file again: the stored one with options changed, or just the options to give."""
    options = options_of(om.attributes.atc_cmdline)
    if not options:
        return "atc ... " + " ".join(f"--{name}={value}" for name, value in changes.items())
    merged = {**options, **changes}
    return "atc " + " ".join(f"--{name}={_quoted(value)}" for name, value in merged.items())


def _quoted(value: str) -> str:
    return value if re.fullmatch(r"[A-Za-z0-9_./:,=+-]*", value) else '"' + value.replace('"', '\\"') + '"'


def _kind_problem(om: OmFile) -> str:
    if om.kind != "image_gears":
        return ""
    return (
        "the model has gears of image sizes (--dynamic_image_size), which are not served; build it again with "
        "--input_format=ND and --dynamic_dims"
    )


def _soc_problem(om: OmFile, soc: str) -> str:
    if not soc or not om.soc or om.soc.casefold() == soc.casefold():
        return ""
    hint = ""
    if om.soc.casefold() == _AMBIGUOUS_SOC.casefold() and soc.casefold().startswith(_AMBIGUOUS_SOC.casefold()):
        hint = f" ({_AMBIGUOUS_SOC} without a last digit is another chip, of the first generation)"
    command = rebuild_command(om, {"soc_version": soc})
    return f"the model was built for {om.soc} and this device is {soc}{hint}; build it again with: {command}"


def _virtual_problem(om: OmFile, host: Host) -> str:
    if host.virtual_device is not True or om.virtual_type is not False:
        return ""
    command = rebuild_command(om, {"virtual_type": "1"})
    return f"the device is a slice of a chip (vNPU) and the model was not built for one; build it again with: {command}"


def _opp_problem(om: OmFile, opp_version: str) -> str:
    # CANN checks this for dynamic graphs that do not carry their operators with them
    built_with = om.attributes.opp_version
    checked = om.kind == "range" and om.header.runs_dynamic and not om.header.needs_host_check
    if not checked or not opp_version or not built_with or built_with == opp_version:
        return ""
    return (
        f"the model takes ranges of shapes and was built with the operator package {built_with}, installed is "
        f"{opp_version}; such models need the very same version: build it again with this CANN's atc, or install CANN "
        f"with the operator package {built_with}"
    )


def _host_problem(om: OmFile, host: Host) -> str:
    if not om.header.needs_host_check:
        return ""
    changes = {}
    for option, built_for, is_now in (
        ("host_env_os", om.attributes.host_os, host.os),
        ("host_env_cpu", om.attributes.host_cpu, host.cpu),
    ):
        if built_for and is_now and built_for.casefold() != is_now.casefold():
            changes[option] = is_now
    if not changes:
        return ""
    return (
        f"the model holds code for hosts with {om.attributes.host_os} {om.attributes.host_cpu} and this one is "
        f"{host.os} {host.cpu}; build it again with: {rebuild_command(om, changes)}"
    )
