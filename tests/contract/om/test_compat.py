from __future__ import annotations

import pytest

from tests.contract.om import builder
from voxrepo_contract import om
from voxrepo_contract.om.compat import rebuild_command


def read(**values) -> om.OmFile:
    return om.read(builder.dims_gears(**values).write())


def test_a_model_for_this_chip_fits():
    assert om.check_fits(read(), "Ascend910B3", "7.6.0.1.220", om.Host("linux", "aarch64", False)) == ()


def test_nothing_is_held_against_a_model_that_does_not_say_its_chip():
    assert om.check_fits(read(soc_version=""), "Ascend310P3") == ()
    assert om.check_fits(read(), "") == ()


def test_another_chip_is_named_with_the_command_that_builds_for_this_one():
    (problem,) = om.check_fits(read(), "Ascend310P3")
    assert "was built for Ascend910B3 and this device is Ascend310P3" in problem
    assert "--soc_version=Ascend310P3" in problem and "--soc_version=Ascend910B3" not in problem
    # a ; would end the command in a shell
    assert '--input_shape="latent:1,192,-1;mask:1,1,-1"' in problem


def test_the_chip_of_the_first_generation_with_a_name_like_the_second_is_explained():
    (problem,) = om.check_fits(read(soc_version="Ascend910B"), "Ascend910B2")
    assert "another chip, of the first generation" in problem


def test_a_slice_of_a_chip_needs_a_model_built_for_one():
    host = om.Host(virtual_device=True)
    (problem,) = om.check_fits(read(), "Ascend910B3", host=host)
    assert "vNPU" in problem and "--virtual_type=1" in problem
    assert om.check_fits(read(atc_cmdline="atc --virtual_type=1"), "Ascend910B3", host=host) == ()
    assert om.check_fits(read(atc_cmdline=""), "Ascend910B3", host=host) == ()


def test_a_range_model_needs_the_very_operator_package_it_was_built_with():
    ranged = om.read(builder.ranged().write())
    (problem,) = om.check_fits(ranged, "Ascend910B3", "7.7.0.0.1")
    assert "7.6.0.1.220, installed is 7.7.0.0.1" in problem
    assert om.check_fits(ranged, "Ascend910B3", "7.6.0.1.220") == ()
    assert om.check_fits(read(), "Ascend910B3", "7.7.0.0.1") == ()


def test_a_model_with_host_code_needs_its_own_kind_of_host():
    made = builder.static(host_check=1)
    made.models[0][0] = (
        0,
        builder.definition(values=builder.decoder_values(host_env_os="linux", host_env_cpu="aarch64")),
    )
    bound = om.read(made.write())
    (problem,) = om.check_fits(bound, "Ascend910B3", host=om.Host("linux", "x86_64"))
    assert "hosts with linux aarch64 and this one is linux x86_64" in problem and "--host_env_cpu=x86_64" in problem
    assert om.check_fits(bound, "Ascend910B3", host=om.Host("linux", "aarch64")) == ()
    assert om.check_fits(bound, "Ascend910B3") == ()


def test_gears_of_image_sizes_are_refused():
    (problem,) = om.check_fits(om.read(builder.image_gears().write()), "Ascend910B3")
    assert "--dynamic_dims" in problem


@pytest.mark.parametrize("command", ["", "not a command"])
def test_without_a_stored_command_the_option_to_give_is_named(command):
    assert (
        rebuild_command(read(atc_cmdline=command), {"soc_version": "Ascend310P3"})
        == "atc ... --soc_version=Ascend310P3"
    )
