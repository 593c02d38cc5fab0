"""What a model learns and by what it is judged, as a study says it: names, or import paths of functions.

What the names mean for tensors is in :mod:`sortition.learning.objective`; here nothing needs PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass
from re import ASCII
from re import compile as pattern

from sortition.core.errors import InputError, bad, unknown
from sortition.core.validation import refuse_unknown_keys

CROSS_ENTROPY = "cross-entropy"
COMPUTED_BY_MODEL = "model"
LOSSES = {  # the losses by name, and the metric of a task that names none
    CROSS_ENTROPY: "accuracy",
    "bce": "f1",
    "mse": "loss",
    "mae": "loss",
    COMPUTED_BY_MODEL: "loss",
}
METRICS = {  # the metrics by name, and whether more is better
    "loss": False,
    "accuracy": True,
    "f1": True,
    "mse": False,
    "mae": False,
    "rmse": False,
    "r2": True,
}
REGRESSION_LOSSES = ("mse", "mae")
NUMBERS = ("bce", *REGRESSION_LOSSES)  # losses whose targets are numbers, also where they are whole
NO_LABELS = "task.metric must not be 'accuracy' here: accuracy needs class labels"
METRIC_NAME = pattern(r"[A-Za-z_]\w{0,39}", ASCII)  # it names columns and charts
UNNAMED = "metric"  # what tables call a metric that has no name of its own, such as a lambda's


@refuse_unknown_keys
@dataclass(frozen=True)
class TaskRule:
    """A task other than classification by cross-entropy and accuracy.

    Attributes:
        loss: ``cross-entropy``, ``bce`` (multi-label targets), ``mse``, ``mae``, ``model`` (the loss that the model's
            outputs carry), or the import path of a function ``(outputs, targets)`` that returns the mean loss.
        metric: ``loss``, ``accuracy``, ``f1``, ``mse``, ``mae``, ``rmse``, ``r2``, or the import path of a function
            ``(outputs, targets)`` that returns a number. By default the one that belongs to the loss: accuracy with
            cross-entropy, f1 with bce, and the loss itself with any other.
        higher_is_better: whether more of the metric is better; must be given for a metric of one's own.
        metric_name: what records and tables call the metric; by default its name, or that of its function.
    """

    loss: str = CROSS_ENTROPY
    metric: str = ""
    higher_is_better: bool | None = None
    metric_name: str = ""

    def __post_init__(self) -> None:
        if not _is_import_path(self.loss) and self.loss not in LOSSES:
            raise unknown("loss", self.loss, LOSSES, "task")
        if not self.metric:
            object.__setattr__(self, "metric", LOSSES.get(self.loss, "loss"))
        if _is_import_path(self.metric):
            self._settle_own_metric()
        else:
            self._settle_named_metric()

    def _settle_named_metric(self) -> None:
        if self.metric not in METRICS:
            raise unknown("metric", self.metric, METRICS, "task")
        if self.metric == "accuracy" and self.loss in REGRESSION_LOSSES:
            hint = "Try metric = 'rmse', 'mae' or 'r2'."
            raise InputError(f"{NO_LABELS}; got loss = {self.loss!r}, whose targets are numbers. {hint}")
        known_direction = METRICS[self.metric]
        if self.higher_is_better not in (None, known_direction):
            requirement = f"{str(known_direction).lower()} or left out for the metric {self.metric!r}"
            raise bad("task.higher_is_better", requirement, self.higher_is_better)
        if self.metric_name not in ("", self.metric):
            raise bad("task.metric_name", f"left out for the metric {self.metric!r}", self.metric_name)
        object.__setattr__(self, "higher_is_better", known_direction)
        object.__setattr__(self, "metric_name", self.metric)

    def _settle_own_metric(self) -> None:
        if not isinstance(self.higher_is_better, bool):
            hint = "true where more of it is better, false where less is."
            raise bad("task.higher_is_better", "given for a metric of your own", self.higher_is_better, hint)
        if not self.metric_name:
            object.__setattr__(self, "metric_name", self.metric.rpartition(":")[2])
        if self.metric_name in METRICS or not METRIC_NAME.fullmatch(self.metric_name):
            requirement = f"a short name of letters, digits and _ other than {', '.join(METRICS)}"
            raise bad("task.metric_name", requirement, self.metric_name)

    @property
    def wants_numbers(self) -> bool:
        """Tell whether the loss takes targets as numbers, not as labels."""
        return self.loss in NUMBERS


def _is_import_path(name: str) -> bool:
    return ":" in name
