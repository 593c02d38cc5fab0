"""A whole workflow of our own: ask, choose, train, finish, aggregate, step, save."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.app_event_type import AppEventType
from nvflare.app_common.workflows.model_controller import ModelController

from sortition.aggregation import StepRule
from sortition.aggregation.step import StepState
from sortition.clients.models import Model, as_vector, from_vector
from sortition.core.errors import InputError, SortitionError, StorageError, bad
from sortition.nvflare import checkpoint, wire
from sortition.nvflare.returned import combined
from sortition.nvflare.selection import Selection
from sortition.nvflare.settings import Settings


class SelectorController(ModelController):
    """Trains one model with the sites that a selector chooses.

    Args:
        selector: a method's name, such as ``fedgs``, or ``package.module:Class``.
        cohort: sites a round.
        num_rounds: rounds of the job, those of before a restart included.
        model: initial parameters by name, as nested lists, where no persistor gives them.
        step: the server's step, keys of :class:`sortition.aggregation.StepRule`; default: w + Σ a_k Δ_k.
        persistor_id: NVFlare's component that loads and saves the model; empty for none.
        options: a table of the other keys of :class:`~sortition.nvflare.settings.Settings`: ``parameters``, ``seed``,
            ``guards``, ``owners``, ``wait_for``, ``patience``, ``answer_timeout``, ``train_timeout``, ``overselect``,
            ``checkpoint``, ``resume``, ``audit``.
    """

    def __init__(
        self,
        selector: str,
        cohort: int,
        num_rounds: int,
        model: Mapping[str, Any] | None = None,
        step: Mapping[str, Any] | None = None,
        persistor_id: str = "persistor",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(persistor_id=persistor_id, ignore_result_error=True)
        if isinstance(num_rounds, bool) or not isinstance(num_rounds, int) or num_rounds < 1:
            raise bad("SelectorController.num_rounds", "a whole number ≥ 1", num_rounds)
        self.settings = Settings.of(selector, cohort, options)
        for name, value in (("model", model), ("step", step)):
            if value is not None and not isinstance(value, Mapping):
                raise bad(f"SelectorController.{name}", "a table", value)
        try:
            self._rule = StepRule(**dict(step or {}))
        except TypeError as error:
            raise InputError(f"SelectorController.step must hold keys of StepRule; {error}.") from None
        # NVFlare writes a job from the attributes that are called like the arguments
        self.selector, self.cohort, self.num_rounds = selector, cohort, num_rounds
        self.model, self.step, self.options = model, step, options
        self.selection: Selection | None = None

    def run(self) -> None:
        """The workflow; a mistake of the user stops the job with one sentence."""
        try:
            self._run()
        except SortitionError as error:
            self.panic(f"sortition: {error}")

    def _run(self) -> None:
        selection = self.selection = Selection(self.settings, self, self.num_rounds)
        model, state = self._start(selection)
        selection.before_log = lambda model: self._save(selection, model, state)
        try:
            while self._played(selection) < self.num_rounds and not self.abort_signal.triggered:
                model, state = self._round(selection, model, state)
        finally:
            selection.close(reveal=self._played(selection) >= self.num_rounds)

    @staticmethod
    def _played(selection: Selection) -> int:
        return 0 if selection.registrar is None else selection.registrar.index

    def _start(self, selection: Selection) -> tuple[Model, StepState]:
        """The first model, or the one of the checkpoint."""
        file = self.settings.file
        if file is not None and file.exists():
            if not self.settings.resume:
                raise bad("SelectorController.checkpoint", "a new file, or resume = True", str(file))
            model, state = checkpoint.load(file, selection, self._identity)
            checkpoint.check_model(file, model, self._first_model())
            if state.keys() != (wanted := self._rule.init(0)).keys():  # checkpoints of 0.1.0 do not name their step
                raise StorageError(
                    f"{file} is of another federation: its step kept {sorted(state)}, this one keeps {sorted(wanted)}."
                )
            self.info(f"Going on after round {self._played(selection)}.")
            return model, state
        model = self._first_model()
        return model, self._rule.init(as_vector(model).size)

    @property
    def _identity(self) -> dict[str, Any]:
        """The server's step, as checkpoints name it."""
        return {f"step.{name}": value for name, value in asdict(self._rule).items()}

    def _first_model(self) -> Model:
        if self.model is not None:
            model = {name: np.asarray(value, np.float32) for name, value in self.model.items()}
        else:
            model = wire.as_model(self.load_model().params)
        if not model:
            raise bad("SelectorController.model", "given, or loaded by a persistor", "no parameters")
        return model

    def _round(self, selection: Selection, model: Model, state: StepState) -> tuple[Model, StepState]:
        self.event(AppEventType.ROUND_STARTED)
        names = selection.choose(model)
        self.info(f"{type(selection.selector).__name__} chose {', '.join(names) or 'nobody'}")
        cohort, sent = selection.cohort, self._train(selection, model)
        done, returned = selection.finish(sent, model)
        if done.size:
            update = combined(cohort, done, returned.models, model).astype(np.float32)
            vector, state = self._rule.apply(as_vector(model).astype(np.float32), update, state)
            model = from_vector(vector, model)
        if self.persistor:
            self.save_model(FLModel(params=dict(model), current_round=self._played(selection) - 1))
        self._save(selection, model, state)
        return model, state

    def _save(self, selection: Selection, model: Model, state: StepState) -> None:
        if self.settings.file is not None:
            checkpoint.save(self.settings.file, selection, model, state, self._identity)

    def _train(self, selection: Selection, model: Model) -> dict[str, FLModel]:
        """Send the model to the cohort; ``targets=[]`` would mean everybody, so an empty cohort sends nothing."""
        asked = selection.training()
        if not asked:
            return {}
        results = self.send_model_and_wait(
            task_name=wire.TRAIN,
            data=selection.message(asked, model),
            targets=list(asked),
            min_responses=selection.target or None,
            timeout=self.settings.train_timeout,
        )
        return {str(result.meta["client_name"]): result for result in results}
