"""A whole workflow of our own: ask, choose, train, finish, aggregate, step, save."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.app_event_type import AppEventType

from sortition.aggregation import StepRule
from sortition.clients.named_arrays import Model
from sortition.core.errors import bad
from sortition.core.storage.snapshot import StoredTable
from sortition.core.validation import is_whole
from sortition.federation.model_engine import ModelEngine
from sortition.nvflare import meta_codec
from sortition.nvflare.controller_options import as_table, made_of
from sortition.nvflare.shared_controller import SelectingController

CLASS_NAME = "SelectorController"


class SelectorController(SelectingController):
    """Trains one model with the sites that a selector chooses.

    Args:
        selector: a method's name, such as ``fedgs``, or ``package.module:Class``.
        cohort: sites a round.
        num_rounds: rounds of the job, those of before a restart included.
        model: initial parameters by name, as nested lists, where no persistor gives them.
        step: the server's step, keys of :class:`sortition.aggregation.StepRule`; default: w + Σ a_k Δ_k.
        persistor_id: NVFlare's component that loads and saves the model; empty for none.
        options: a table of further options: ``parameters``, ``seed``, ``guards``, ``deadline``, ``eligible``,
            ``checkpoint`` … (docs/nvflare.md).
    """

    def __init__(
        self,
        selector: str,
        cohort: int,
        num_rounds: int,
        model: Mapping[str, npt.ArrayLike] | None = None,
        step: StoredTable | None = None,
        persistor_id: str = "persistor",
        options: StoredTable | None = None,
    ) -> None:
        super().__init__(persistor_id=persistor_id, ignore_result_error=True)
        if not is_whole(num_rounds, 1):
            raise bad(f"{CLASS_NAME}.num_rounds", "a whole number ≥ 1", num_rounds)
        as_table(CLASS_NAME, "model", model)
        self._rule = made_of(StepRule, CLASS_NAME, "step", step)
        self.configure(selector, cohort, num_rounds, options)
        self.num_rounds = int(num_rounds)
        self.model = model
        self.step = step

    def play(self, stack: ExitStack) -> None:
        """Play all rounds, or those that a checkpoint leaves."""
        engine = ModelEngine(self._first_model(), self._rule, self.combining)
        rounds_before_restart = self.begin(engine, self.num_rounds, stack)
        for round_index in range(rounds_before_restart, self.num_rounds):
            self.event(AppEventType.ROUND_STARTED)
            self.choose()
            self.started.driver.dispatch()
            self.started.close_round()
            if self.persistor:
                self.save_model(FLModel(params=dict(engine.model), current_round=round_index))
        self.started.end()

    def _first_model(self) -> Model:
        """Return the model that was given, or that a persistor loads."""
        if self.model is not None:
            model = {name: np.asarray(value, np.float32) for name, value in self.model.items()}
        else:
            model = meta_codec.as_model(self.load_model().params)
        if not model:
            raise bad(f"{CLASS_NAME}.model", "given, or loaded by a persistor", "no parameters")
        return model
