"""A limit that an arm must keep."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from voxrepo.rollout.finite import FiniteModel
from voxrepo.rollout.metric import METRICS, Metric

MIN_SAMPLES = 5
"""Below, an interval of a mean by Student's t says nothing that one would act on."""


class Gate(FiniteModel):
    """Either limits of the value itself (``min``, ``max`` or both) or one against the stable arm.

    Attributes:
        metric: name of the metric.
        min: least value.
        max: greatest value.
        max_ratio: greatest ratio to the stable arm's value; of quantiles only.
        max_difference: greatest difference from the stable arm's value, in the metric's unit; to either side for
            ``level_dbfs``, upwards for the others.
        min_samples: requests, or pairs, of the arm (and of the stable arm, if compared) below which there is no
            verdict. Errors that are certain are judged before.
        confidence: of the interval, which must lie within the limit to pass and beyond it to fail.
        dry_run: whether the verdict is only reported.
    """

    metric: str
    min: float | None = None
    max: float | None = None
    max_ratio: Annotated[float, Field(gt=0)] | None = None
    max_difference: Annotated[float, Field(ge=0)] | None = None
    min_samples: Annotated[int, Field(ge=MIN_SAMPLES)] = 30
    confidence: Annotated[float, Field(ge=0.5, le=0.9999)] = 0.95
    dry_run: bool = False

    @field_validator("metric")
    @classmethod
    def _is_known(cls, metric: str) -> str:
        if metric not in METRICS:
            raise ValueError(f"unknown metric; there are: {', '.join(METRICS)}")
        return metric

    @model_validator(mode="after")
    def _has_one_kind_of_limit(self) -> Gate:
        absolute = self.min is not None or self.max is not None
        if absolute + (self.max_ratio is not None) + (self.max_difference is not None) != 1:
            raise ValueError(f"{self.metric}: give min and/or max, or max_ratio, or max_difference")
        if self.min is not None and self.max is not None and not self.min < self.max:
            raise ValueError(f"{self.metric}: min {self.min:g} must be less than max {self.max:g}")
        metric = self.of
        if not absolute and not metric.of_stable_too:
            raise ValueError(f"{self.metric} is a comparison with the stable arm already; give min and/or max")
        if self.max_ratio is not None and metric.statistic != "quantile":
            raise ValueError(
                f"{self.metric}: a ratio to the stable arm is judged for quantiles only; give max_difference"
            )
        return self

    @property
    def of(self) -> Metric:
        """The metric."""
        return METRICS[self.metric]

    @property
    def compares(self) -> bool:
        """Whether the stable arm's samples are needed."""
        return self.max_ratio is not None or self.max_difference is not None

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Least and greatest allowed value of what is judged."""
        if self.max_ratio is not None:
            return None, self.max_ratio
        if self.max_difference is not None:
            return (-self.max_difference if self.of.better == "neither" else None), self.max_difference
        return self.min, self.max

    @property
    def limit(self) -> str:
        """The limit in words."""
        low, high = self.bounds
        if self.max_ratio is not None:
            return f"at most {self.max_ratio:g} times stable"
        unit = f" {self.of.unit}" if self.of.unit else ""
        if self.max_difference is not None:
            return f"at most {self.max_difference:g}{unit} {'from' if low is not None else 'above'} stable"
        if low is not None and high is not None:
            return f"from {low:g} to {high:g}{unit}"
        return f"at least {low:g}{unit}" if low is not None else f"at most {high:g}{unit}"
