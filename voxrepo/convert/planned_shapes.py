"""The shapes of a graph's tensors at every size that a plan has, and the refusal of plans that a device cannot run."""

from __future__ import annotations

import onnx

from voxrepo.convert.fixed_shapes import ShapeFinder, Shapes
from voxrepo.convert.plan import ShapePlan
from voxrepo.convert.refusal import BAD_VALUE, AtcRefusal
from voxrepo.convert.soc import Soc
from voxrepo.convert.target import Progress
from voxrepo_contract.emulated_om import GEAR_KINDS, RANGE


def planned_shapes(model: onnx.ModelProto, plan: ShapePlan, soc: Soc, progress: Progress) -> list[Shapes]:
    """Shapes at each of ``plan.probes()``, in its order.

    Args:
        model: the graph.
        plan: how its shapes are to be.
        soc: the chip.
        progress: told a sentence and the share done, from 0 to 1.

    Raises:
        AtcRefusal: the chip has no ranges, a size depends on values where gears need it to follow from the inputs, or
            the graph contradicts itself at a size.
    """
    if plan.kind == RANGE and not soc.properties().range_graphs:
        raise AtcRefusal(BAD_VALUE, f"{soc.name} does not run graphs with ranges; give fixed sizes or gears")
    finder = ShapeFinder(model)
    found: list[Shapes] = []
    probes = plan.probes()
    for number, sizes in enumerate(probes):
        progress(f"checking shapes, {number + 1} of {len(probes)}", number / len(probes))
        shapes = finder.at(sizes)
        if plan.kind in GEAR_KINDS and shapes.dynamic:
            raise AtcRefusal(
                BAD_VALUE,
                "gears need a graph in which every size follows from those of the inputs, and the output of "
                f"{shapes.dynamic} depends on values; move that step to the host, or use ranges",
            )
        found.append(shapes)
    return found
