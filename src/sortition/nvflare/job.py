"""Jobs: one of our own in a few lines, or an existing FedAvg recipe with another selection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nvflare.app_common.workflows.fedavg import FedAvg
from nvflare.client.config import ExchangeFormat
from nvflare.fuel.utils.class_utils import get_component_init_parameters
from nvflare.fuel.utils.constants import FrameworkType
from nvflare.job_config.api import FedJob
from nvflare.job_config.script_runner import ScriptRunner

from sortition.core.errors import InputError, bad
from sortition.nvflare.controller import SelectorController
from sortition.nvflare.fedavg import SelectedFedAvg


def selector_job(
    name: str,
    script: str,
    *,
    selector: str,
    cohort: int,
    num_rounds: int,
    model: Mapping[str, Any],
    script_args: str = "",
    framework: FrameworkType = FrameworkType.NUMPY,
    min_clients: int = 1,
    **options: Any,
) -> FedJob:
    """A job that trains ``model`` with the sites that a selector chooses.

    Args:
        name: of the job.
        script: the training script of the sites; it uses ``sortition.nvflare.client``.
        selector: a method's name, or ``package.module:Class``.
        cohort: sites a round.
        num_rounds: rounds.
        model: initial parameters by name.
        script_args: arguments of the script.
        framework: in which form the script gets parameters: NumPy arrays or PyTorch tensors.
        min_clients: sites that must be connected for NVFlare to start the job; if fewer are left, it ends the job.
        options: ``step``, and keys of :class:`~sortition.nvflare.settings.Settings`.
    """
    initial = {key: _plain(value) for key, value in model.items()}
    step = options.pop("step", None)
    controller = SelectorController(selector, cohort, num_rounds, initial, step, persistor_id="", options=options)
    job = FedJob(name=name, min_clients=min_clients)
    job.to_server(controller)
    job.to_clients(ScriptRunner(script, script_args=script_args, framework=framework))
    return job


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def select_clients(recipe: Any, selector: str, *, cohort: int, **options: Any) -> Any:
    """Give an existing FedAvg recipe (or job) another selection: its controller becomes ``SelectedFedAvg``.

    Args:
        recipe: a ``FedAvgRecipe`` of NVFlare, or a ``FedJob`` with a FedAvg controller.
        selector: a method's name, or ``package.module:Class``.
        cohort: sites a round.
        options: further keys of :class:`~sortition.nvflare.settings.Settings`.
    """
    if getattr(recipe, "server_expected_format", ExchangeFormat.NUMPY) == ExchangeFormat.PYTORCH:
        raise bad("select_clients(recipe)", "one with server_expected_format = ExchangeFormat.NUMPY", "PYTORCH")
    job = recipe if isinstance(recipe, FedJob) else getattr(recipe, "_job", None)
    apps = getattr(job, "_deploy_map", {})  # NVFlare offers no public way to look at a job's workflows
    for workflow in apps["server"].get_app_config().workflows if "server" in apps else ():
        if type(workflow.controller) is FedAvg:
            workflow.controller = _selected(workflow.controller, selector, cohort, options)
            return recipe
    raise InputError("select_clients(recipe) must be given a recipe or job with NVFlare's FedAvg controller.")


def _selected(before: FedAvg, selector: str, cohort: int, options: dict[str, Any]) -> SelectedFedAvg:
    """The same FedAvg, with another selection; NVFlare keeps arguments as attributes, with or without an underscore."""
    held = vars(before)
    wanted = get_component_init_parameters(before).keys() - {"args", "kwargs"}
    names = [name for name in wanted if name in held or f"_{name}" in held]
    given = {name: held[name] if name in held else held[f"_{name}"] for name in names}
    return SelectedFedAvg(selector, cohort, options=options, **given)
