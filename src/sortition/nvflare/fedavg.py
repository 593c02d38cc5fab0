"""NVFlare's own FedAvg with another selection: its events, stopping rule, model selection and persistor stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.workflows.fedavg import FedAvg

from sortition.clients.models import Model, as_vector, from_vector
from sortition.core.errors import SortitionError, bad
from sortition.nvflare import checkpoint, wire
from sortition.nvflare.returned import combined
from sortition.nvflare.selection import Selection
from sortition.nvflare.settings import Settings


class SelectedFedAvg(FedAvg):
    """FedAvg whose clients a selector chooses, and whose weights are the cohort's.

    Args:
        selector: a method's name.
        cohort: sites a round; NVFlare's ``num_clients`` is not used.
        options: the other keys of :class:`~sortition.nvflare.settings.Settings`.
        kwargs: everything else is FedAvg's: ``num_rounds``, ``persistor_id``, ``stop_cond`` …
    """

    # NVFlare finds the arguments of FedAvg itself through the names args and kwargs
    def __init__(
        self, selector: str, cohort: int, *args: Any, options: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        if kwargs.get("aggregator") is not None:
            raise bad("SelectedFedAvg.aggregator", "None: the cohort's weights decide", kwargs["aggregator"])
        kwargs["num_clients"] = cohort
        kwargs.setdefault("ignore_result_error", True)
        super().__init__(*args, **kwargs)
        self.settings = Settings.of(selector, cohort, options)
        self.selector, self.cohort, self.options = selector, cohort, options
        self.selection: Selection | None = None
        self._sent: Model = {}
        self._results: dict[str, FLModel] = {}
        self._global: Model = {}

    def run(self) -> None:
        """FedAvg's own rounds; a mistake of the user stops the job with one sentence."""
        self.selection = Selection(self.settings, self, self.num_rounds)
        try:
            super().run()
            self.selection.close(reveal=True)
        except SortitionError as error:
            self.selection.close(reveal=False)
            self.panic(f"sortition: {error}")

    def sample_clients(self, num_clients: int | None = None) -> list[str]:
        """The sites that the selector chooses."""
        if self.selection is None:
            raise SortitionError("SelectedFedAvg must be started by NVFlare.")
        model = self._model_now()
        file = self.settings.file
        if file is not None and file.exists() and self.selection.registrar is None:
            if not self.settings.resume:
                raise bad("SelectedFedAvg.checkpoint", "a new file, or resume = True", str(file))
            checkpoint.load(file, self.selection)
        names = self.selection.choose(model)
        self.info(f"{type(self.selection.selector).__name__} chose {', '.join(names) or 'nobody'}")
        return names

    def _model_now(self) -> Model:
        if not self._global:
            initial = self.model.params if isinstance(self.model, FLModel) else self.model
            self._global = wire.as_model(initial if initial is not None else self.load_model().params)
        return self._global

    def send_model(
        self,
        task_name: str = "train",
        data: FLModel = None,
        targets: list[str] | None = None,
        min_responses: int | None = None,
        timeout: int = 0,
        callback: Callable[[FLModel], Any] | None = None,
    ) -> None:
        """Send the model with tasks; results are kept, so that their weights can be the cohort's."""
        if self.selection is None or not targets:
            return  # nobody was chosen: to NVFlare an empty list means everybody
        self._results = {}
        message = self.selection.message(self.selection.training(), wire.as_model(data.params))
        message.current_round, message.total_rounds = data.current_round, data.total_rounds
        message.meta = {**(data.meta or {}), **message.meta}

        def keep(result: FLModel) -> Any:
            self._results[str(result.meta["client_name"])] = result
            return callback(result) if callback is not None else True

        limit, least = self.settings.train_timeout, self.selection.target or None
        super().send_model(task_name, message, targets, least, timeout or limit, keep)

    def update_model(self, model: FLModel, aggr_result: FLModel) -> FLModel:
        """The model moved by the cohort's weights; FedAvg's own sum gives metrics and metadata only."""
        selection = self.selection
        if selection is None:
            return model
        before, cohort = wire.as_model(model.params), selection.cohort
        done, returned = selection.finish(self._results, before)
        after = before
        if done.size:
            update = combined(cohort, done, returned.models, before)
            after = from_vector(as_vector(before) + update, before)
        moved = FLModel(ParamsType.FULL, dict(after), metrics=aggr_result.metrics, meta=aggr_result.meta)
        updated: FLModel = super().update_model(model, moved)
        self._global = after
        if self.settings.file is not None:
            checkpoint.save(self.settings.file, selection, after, {})
        return updated
