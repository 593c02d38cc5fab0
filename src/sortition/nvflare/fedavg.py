"""NVFlare's own FedAvg with another selection: its events, stopping rule, model selection and persistor stay."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy.typing as npt
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.workflows.fedavg import FedAvg

from sortition.clients.named_arrays import Model, as_vector, from_vector
from sortition.core.errors import bad
from sortition.core.round_record import answered_ids
from sortition.core.storage.snapshot import StoredTable
from sortition.federation.model_engine import Combining, ModelEngine, Step
from sortition.nvflare import meta_codec
from sortition.nvflare.shared_controller import SelectingController

CLASS_NAME = "SelectedFedAvg"


class FedAvgEngine(ModelEngine):
    """Keeps the model as FedAvg does: w + Σ a_k Δ_k, but for arrays that are excluded.

    Args:
        model: initial arrays by name.
        combining: how updates become one.
        exclude_vars: FedAvg's pattern of the names of arrays that are not aggregated; they stay as they are.
    """

    def __init__(self, model: Mapping[str, npt.ArrayLike], combining: Combining, exclude_vars: str | None) -> None:
        super().__init__(model, combining=combining)
        self._excluded = None
        if exclude_vars:
            self._excluded = re.compile(exclude_vars)

    @property
    def identity(self) -> dict[str, object]:
        """FedAvg, as checkpoints name it beside the rules of SelectorController, and the combining rule."""
        return {"step.name": "NVFlare's FedAvg", **self.combining.identity}

    def set_model(self, model: Model) -> None:
        """Take the model that FedAvg's loop holds: NVFlare's components may have changed it between rounds."""
        self._model = model

    def step(self, step: Step) -> Mapping[str, object]:
        """Move the model by the combined update."""
        if step.ids.size:
            model = self._model
            self._model = from_vector(as_vector(model) + self.update_of(step), model)
            if self._excluded is not None:
                self._model |= {name: value for name, value in model.items() if self._excluded.search(name)}
        return {}


class SelectedFedAvg(SelectingController, FedAvg):
    """FedAvg whose clients a selector chooses, and whose weights are the cohort's.

    Args:
        selector: a method's name, or ``package.module:Class``.
        cohort: sites a round; NVFlare's ``num_clients`` is not used.
        options: a table of further options, as those of ``SelectorController`` (docs/nvflare.md).
        kwargs: everything else is FedAvg's: ``num_rounds``, ``persistor_id``, ``stop_cond`` …
    """

    model: Any  # a model of NVFlare, its parameters, or None
    start_round: int
    num_rounds: int
    _model_engine: FedAvgEngine
    _stack: ExitStack  # holds the files of a run

    # NVFlare finds the arguments of FedAvg itself through the names args and kwargs
    def __init__(
        self, selector: str, cohort: int, *args: object, options: StoredTable | None = None, **kwargs: object
    ) -> None:
        for name in ("aggregator", "aggregation_weights"):
            if kwargs.get(name):
                raise bad(f"{CLASS_NAME}.{name}", "left out: the cohort's weights decide", kwargs[name])
        kwargs["num_clients"] = cohort
        if kwargs.get("ignore_result_error") is None:
            kwargs["ignore_result_error"] = True  # else NVFlare ends the job when one script raises
        super().__init__(*args, **kwargs)
        self.configure(selector, cohort, self.num_rounds, options)

    def play(self, stack: ExitStack) -> None:
        """Play FedAvg's own rounds, with its model or that of a checkpoint."""
        self._stack = stack
        if self.model is not None:
            params = self.model
            if isinstance(self.model, FLModel):
                params = self.model.params
            self.model = FLModel(params=self._go_on(meta_codec.as_model(params)))
        FedAvg.run(self)
        self.started.end()

    def _go_on(self, initial: Model) -> Model:
        """Begin with this model, or go on with that of the checkpoint, after its last round."""
        self._model_engine = FedAvgEngine(initial, self.combining, self.exclude_vars)
        rounds_before_restart = self.begin(self._model_engine, self.num_rounds, self._stack)
        self.start_round += rounds_before_restart
        self.num_rounds -= rounds_before_restart
        return dict(self._model_engine.model)

    def load_model(self) -> FLModel:
        """Return the persistor's model, or that of the checkpoint."""
        model: FLModel = super().load_model()
        model.params = self._go_on(meta_codec.as_model(model.params))
        return model

    # -- a round: FedAvg calls these one after the other ---------------------------------------------------------------

    def sample_clients(self, num_clients: int | None = None) -> list[str]:
        """Return the sites that the selector chooses."""
        return self.choose()

    def send_model(
        self,
        task_name: str = "train",
        data: FLModel = None,
        targets: list[str] | None = None,
        min_responses: int | None = None,
        timeout: int = 0,
        callback: Callable[[FLModel], object] | None = None,
    ) -> None:
        """Send the model to the cohort, wait until the round is over, and make the next model.

        ``callback``, by which FedAvg sums up metrics, is called with the results that count, in the cohort's order.
        """
        federation = self.started
        self.transport.train_task = task_name
        self.transport.train_message = data
        self._model_engine.set_model(meta_codec.as_model(data.params))
        federation.driver.dispatch()
        record = federation.close_round()
        for client in answered_ids(record):
            result = federation.messenger.training.replies[client].native
            try:
                if callback is not None:
                    callback(result)
            except Exception as error:  # FedAvg's own sum, of what a site sent
                self.error(f"FedAvg cannot sum up the result of {result.meta['client_name']}: {error}")

    def get_num_standing_tasks(self) -> int:
        """Return 0: the round is over, and FedAvg must not wait for questions to silent sites."""
        return 0

    def update_model(self, model: FLModel, aggr_result: FLModel) -> FLModel:
        """Return the model moved by the cohort's weights; FedAvg's own sum gives metrics and metadata only."""
        moved_model = FLModel(
            ParamsType.FULL, dict(self._model_engine.model), metrics=aggr_result.metrics, meta=aggr_result.meta
        )
        updated: FLModel = super().update_model(model, moved_model)
        return updated
