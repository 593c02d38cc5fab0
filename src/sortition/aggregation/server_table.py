"""Both steps of the server in one flat table: ``server = { combine = "fedvarp", step = "adam" }`` in a study."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from sortition.aggregation.combine import CombineRule
from sortition.aggregation.step import StepRule
from sortition.core.errors import bad


@dataclass(frozen=True)
class ServerRule(StepRule):
    """The step with its parameters, and the name and the parameters of :class:`CombineRule`.

    Attributes:
        step: the step's name; ``name`` means the same.
        combine: how updates become one: ``mean``, ``median``, ``trimmed-mean``, ``geometric-median``, ``norm-bound``,
            ``fedvarp`` or ``mifa``.
        trim: share of the weight that the trimmed mean cuts from each end.
        passes: Weiszfeld passes of the geometric median.
        smoothing: ν of these passes: distances below count as this.
        bound: longest update of ``norm-bound``, in median norms.
        remember: whether remembered updates are divided by the learning rate of their round (``rate``) or ``raw``.
        memory_limit: GiB that remembered updates may take.
    """

    step: str | None = None
    combine: str = CombineRule.name
    trim: float = CombineRule.trim
    passes: int = CombineRule.passes
    smoothing: float = CombineRule.smoothing
    bound: float = CombineRule.bound
    remember: str = CombineRule.remember
    memory_limit: float = CombineRule.memory_limit

    def __post_init__(self) -> None:
        if self.step is not None:
            if self.name not in (StepRule.name, self.step):
                raise bad("server", "given one step", f"name = {self.name!r} and step = {self.step!r}")
            object.__setattr__(self, "name", self.step)
            object.__setattr__(self, "step", None)
        super().__post_init__()
        _ = self.combine_rule  # checks its parameters

    @property
    def combine_rule(self) -> CombineRule:
        """How updates become one."""
        return CombineRule(self.combine, **{name: getattr(self, name) for name in PARAMETERS})

    def changed(self) -> dict[str, Any]:
        """Return the table as a run folder keeps it; options of combining are left out where they are the default."""
        default = asdict(ServerRule())
        beside = ("step", "combine", *PARAMETERS)
        return {key: value for key, value in asdict(self).items() if key not in beside or value != default[key]}

    def without_step(self) -> dict[str, Any]:
        """Return what stays when another step is chosen."""
        return {name: getattr(self, name) for name in ("combine", *PARAMETERS)}


PARAMETERS = tuple(field.name for field in fields(CombineRule) if field.name != "name")
