"""NVFlare's own FedAvg with another selection: its events, stopping rule, model selection and persistor stay."""

from __future__ import annotations

import re
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

STEP = {"step.name": "NVFlare's FedAvg"}  # as checkpoints name it, beside the rules of SelectorController


class SelectedFedAvg(FedAvg):
    """FedAvg whose clients a selector chooses, and whose weights are the cohort's.

    Args:
        selector: a method's name, or ``package.module:Class``.
        cohort: sites a round; NVFlare's ``num_clients`` is not used.
        options: the other keys of :class:`~sortition.nvflare.settings.Settings`.
        kwargs: everything else is FedAvg's: ``num_rounds``, ``persistor_id``, ``stop_cond`` …
    """

    model: Any
    start_round: int
    num_rounds: int

    # NVFlare finds the arguments of FedAvg itself through the names args and kwargs
    def __init__(
        self, selector: str, cohort: int, *args: Any, options: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        for name in ("aggregator", "aggregation_weights"):
            if kwargs.get(name):
                raise bad(f"SelectedFedAvg.{name}", "left out: the cohort's weights decide", kwargs[name])
        kwargs["num_clients"] = cohort
        if kwargs.get("ignore_result_error") is None:
            kwargs["ignore_result_error"] = True  # else NVFlare ends the job when one script raises
        super().__init__(*args, **kwargs)
        self.settings = Settings.of(selector, cohort, options)
        self.selector, self.cohort, self.options = selector, cohort, options
        self.selection: Selection | None = None
        self._results: dict[str, FLModel] = {}
        self._global: Model = {}
        self._saved: Model | None = None

    def run(self) -> None:
        """FedAvg's own rounds; a mistake of the user stops the job with one sentence."""
        selection = self.selection = Selection(self.settings, self, self.num_rounds)
        selection.before_log = lambda model: self._save(selection, model)
        over = False
        try:
            self._resume(selection)
            if self.model is not None:
                self.model = FLModel(params=self._begin_with(wire.as_model(_params(self.model))))
            super().run()
            over = not self.abort_signal.triggered
        except SortitionError as error:
            self.panic(f"sortition: {error}")
        finally:
            selection.close(reveal=over)

    def _resume(self, selection: Selection) -> None:
        """Go on after the checkpoint's last round, if there is one."""
        file = self.settings.file
        if file is None or not file.exists():
            return
        if not self.settings.resume:
            raise bad("SelectedFedAvg.checkpoint", "a new file, or resume = True", str(file))
        self._saved, _ = checkpoint.load(file, selection, STEP)
        played = len(selection.history)
        self.start_round, self.num_rounds = self.start_round + played, self.num_rounds - played
        self.info(f"Going on after round {played}.")

    def _begin_with(self, initial: Model) -> Model:
        if self._saved is not None and self.settings.file is not None:
            checkpoint.check_model(self.settings.file, self._saved, initial)
        self._global = initial if self._saved is None else self._saved
        return self._global

    def load_model(self) -> FLModel:
        """The persistor's model, or that of the checkpoint."""
        model: FLModel = super().load_model()
        model.params = self._begin_with(wire.as_model(model.params))
        return model

    def sample_clients(self, num_clients: int | None = None) -> list[str]:
        """The sites that the selector chooses."""
        if self.selection is None:
            raise SortitionError("SelectedFedAvg must be started by NVFlare.")
        names = self.selection.choose(self._global)
        self.info(f"{type(self.selection.selector).__name__} chose {', '.join(names) or 'nobody'}")
        return names

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
        self._results = {}
        if self.selection is None or not targets:
            return  # nobody was chosen: to NVFlare an empty list means everybody
        message = self.selection.message(self.selection.training(), wire.as_model(data.params))
        message.current_round, message.total_rounds = data.current_round, self.selection.rounds
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
            after = self._without_excluded(from_vector(as_vector(before) + update, before), before)
        moved = FLModel(ParamsType.FULL, dict(after), metrics=aggr_result.metrics, meta=aggr_result.meta)
        updated: FLModel = super().update_model(model, moved)
        self._global = after
        self._save(selection, after)
        return updated

    def _save(self, selection: Selection, model: Model) -> None:
        if self.settings.file is not None:
            checkpoint.save(self.settings.file, selection, model, {}, STEP)

    def _without_excluded(self, after: Model, before: Model) -> Model:
        """FedAvg's ``exclude_vars``: arrays that are not aggregated stay as they are."""
        if not self.exclude_vars:
            return after
        excluded = re.compile(self.exclude_vars)
        return {name: before[name] if excluded.search(name) else value for name, value in after.items()}


def _params(model: Any) -> Any:
    return model.params if isinstance(model, FLModel) else model
