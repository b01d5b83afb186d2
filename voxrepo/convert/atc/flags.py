"""The flags of ``atc`` that are documented, and those that a user may add. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from voxrepo.convert.refusal import BAD_VALUE, FLAGS_EXCLUDE, AtcRefusal

FLAGS = frozenset(
    """
    ac_parallel_enable aicore_num atomic_clean_policy auto_tune_mode autotune_ddr_percent buffer_optimize
    check_report compress_weight_conf compression_optimize_conf customize_dtypes debug_dir deterministic
    deterministic_level disable_reuse_memory display_model_info distributed_cluster_build dump_mode
    dynamic_batch_size dynamic_dims dynamic_image_size enable_compress_weight enable_graph_parallel
    enable_scope_fusion_passes enable_single_stream enable_small_channel enable_sparse_matrix_weight
    external_weight framework fusion_switch_file graph_parallel_option_path help host_env_cpu host_env_os
    input_format input_fp16_nodes input_hint_shape input_shape input_shape_range insert_op_conf
    is_input_adjust_hw_layout is_output_adjust_hw_layout jit_compile json keep_dtype log mode model
    model_relation_config modify_mixlist om op_compiler_cache_dir op_compiler_cache_mode op_debug_config
    op_debug_level op_name_map op_precision_mode op_select_implmode opt_level optimization_switch
    optypelist_for_implmode out_nodes output output_type precision_mode precision_mode_v2 quant_dumpable
    save_original_model shape_generalized_build_mode singleop soc_version sparsity static_model_ops_lower_limit
    status_check tiling_schedule_optimize virtual_type weight
    """.split()  # noqa: SIM905
)
"""Names without dashes, as Ascend's documentation of ATC lists them."""

SET_BY_CONVERSION = frozenset(
    """
    model framework output soc_version input_format input_shape input_shape_range dynamic_batch_size
    dynamic_image_size dynamic_dims keep_dtype mode om json singleop weight
    """.split()  # noqa: SIM905
)
"""Flags that follow from the graph, its gears and the chip; another value would not fit the new version."""


def parse_extra(given: Sequence[str]) -> dict[str, str]:
    """Take ``--atc-arg`` values apart.

    Args:
        given: ``flag=value``, with or without dashes before it.

    Raises:
        AtcRefusal: no value, an unknown flag, one that the conversion sets, or one that stands twice.
    """
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.strip().lstrip("-").partition("=")
        if not equals or not value:
            raise AtcRefusal(BAD_VALUE, f"--atc-arg {text!r} is not flag=value; write for instance deterministic=1")
        if name not in FLAGS:
            near = difflib.get_close_matches(name, sorted(FLAGS), n=2)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise AtcRefusal(BAD_VALUE, f"--atc-arg {text!r}: atc has no flag --{name}{hint}")
        if name in SET_BY_CONVERSION:
            raise AtcRefusal(
                FLAGS_EXCLUDE,
                f"--atc-arg {text!r}: --{name} follows from the voice, its gears and the chip; use the flags of "
                "`voxrepo convert` (--soc, --gears, --input-shape ...)",
            )
        if name in {"precision_mode", "precision_mode_v2"}:
            raise AtcRefusal(FLAGS_EXCLUDE, f"--atc-arg {text!r}: use --precision, whose result is judged")
        if name in found:
            raise AtcRefusal(BAD_VALUE, f"--atc-arg: --{name} stands twice; give it once")
        found[name] = value
    return found
