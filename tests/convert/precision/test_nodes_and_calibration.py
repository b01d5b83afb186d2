from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.graphs import generator
from voxrepo.convert.precision.calibration import check_ids, check_size, read_calibration
from voxrepo.convert.precision.nodes import check_names, plain
from voxrepo.convert.precision.tiers import parse_precision
from voxrepo.convert.refusal import AtcRefusal
from voxrepo.importers.proof_texts import ProofText
from voxrepo_contract.errors import ConfigError, InvalidArgument

GRAPHS = {"encoder": ["Conv_0", "Conv_1"], "decoder": ["Conv_0", "MatMul_7"]}


def test_unnamed_nodes_get_names_that_do_not_change():
    names = [node.name for node in plain(generator()).graph.node]
    assert len(set(names)) == len(names) and all(names)
    assert names == [node.name for node in plain(plain(generator())).graph.node]


def test_nodes_are_found_in_their_graphs():
    assert check_names(["MatMul_7", "encoder:Conv_0"], GRAPHS) == {"encoder": ["Conv_0"], "decoder": ["MatMul_7"]}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("MatMul_8", "no layer of that name can be lowered; near it are decoder:MatMul_7"),
        ("decoder:Conv_1", "near it are decoder:Conv_0"),
        ("Conv_0", "is in encoder and decoder; write encoder:Conv_0 or decoder:Conv_0"),
        ("zzz", "there are encoder:Conv_0"),
    ],
)
def test_an_unknown_layer_is_refused_with_near_names(name, words):
    with pytest.raises(InvalidArgument) as caught:
        check_names([name], GRAPHS)
    assert words in str(caught.value)


def test_a_calibration_file_has_ids(tmp_path: Path):
    file = tmp_path / "ids.txt"
    file.write_text("# recorded\n1 2 3\n\n4, 5,6\n", encoding="utf-8")
    read = read_calibration(file)
    assert [text.ids for text in read.texts] == [(1, 2, 3), (4, 5, 6)]
    assert read.name == "ids.txt"
    check_ids(read.texts, 7)
    with pytest.raises(InvalidArgument, match="text 2 has the id 6, and the voice has ids from 0 to 5"):
        check_ids(read.texts, 6)


def test_a_calibration_file_of_words_is_refused_with_its_line(tmp_path: Path):
    file = tmp_path / "texts.txt"
    file.write_text("1 2\nHello\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"texts.txt:2.*not a text as ids"):
        read_calibration(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_calibration(tmp_path / "none")


def test_a_small_calibration_set_is_refused_with_numbers():
    with pytest.raises(InvalidArgument, match=r"too small: 3 texts of 900 frames, .* at least 8 texts and 500 frames"):
        check_size(3, 900)
    with pytest.raises(InvalidArgument, match="too small: 10 texts of 40 frames"):
        check_size(10, 40)
    check_size(8, 500)
    assert ProofText((1,), 0).ids == (1,)


def test_tiers_have_names():
    assert parse_precision("origin") == "fp32"
    with pytest.raises(AtcRefusal, match="choose fp32, fp16, mixed, int8"):
        parse_precision("bf16")
