from __future__ import annotations

from typing import Any

import pytest
from om_backend.parameters import ModelParameters, device_of, instance_number, read_parameters

from voxrepo_contract.errors import ConfigError


def read(**parameters: str) -> ModelParameters:
    return read_parameters({"parameters": {name: {"string_value": value} for name, value in parameters.items()}})


def test_what_is_not_given_has_a_sensible_value():
    parameters = read_parameters({})
    assert parameters == read()
    assert (parameters.threads, parameters.unit_batch, parameters.runtime, parameters.device_ids) == (
        1,
        None,
        None,
        (0,),
    )
    assert parameters.options == {"watchdog_ms": "30000"}


def test_what_is_given_counts():
    parameters = read(
        threads="4", unit_batch="8", runtime="ais_bench", device_ids="0;1; 3", watchdog_ms="500", max_output_bytes="y=9"
    )
    assert parameters.unit_batch == 8
    assert parameters.device_ids == (0, 1, 3)
    assert parameters.options == {"watchdog_ms": "500", "max_output_bytes": "y=9"}
    assert read(device_ids="2,5").device_ids == (2, 5)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threads", "0"),
        ("threads", "two"),
        ("unit_batch", "-1"),
        ("device_ids", ""),
        ("device_ids", "0;x"),
        ("device_ids", "-1"),
        ("device_ids", "5000"),
        ("watchdog_ms", "0"),
        ("watchdog_ms", "1.5"),
    ],
)
def test_a_value_that_makes_no_sense_is_named(name: str, value: str):
    with pytest.raises(ConfigError, match=f"the parameter {name} is"):
        read(**{name: value})


ONE_GROUP = [{"name": "m_0", "count": 3}]
TWO_GROUPS = [{"name": "m_0", "count": 2}, {"name": "m_1", "count": 1}, {"name": "extra", "count": 2}]


@pytest.mark.parametrize(
    ("name", "groups", "number"),
    [
        ("m_0_0", ONE_GROUP, 0),
        ("m_0_2", ONE_GROUP, 2),
        ("m_0", [{"name": "m_0", "count": 1}], 0),
        ("m_0_1", TWO_GROUPS, 1),
        ("m_1", TWO_GROUPS, 2),
        ("extra_1", TWO_GROUPS, 4),
        ("m_7", [], 7),
        ("m", [], 0),
    ],
)
def test_instances_are_counted_over_all_groups(name: str, groups: list[dict[str, Any]], number: int):
    assert instance_number(name, groups) == number


def test_instances_take_devices_in_turn():
    parameters = read(device_ids="4;6")
    assert [device_of(parameters, f"m_0_{n}", ONE_GROUP) for n in range(3)] == [4, 6, 4]
