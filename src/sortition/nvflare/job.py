"""Jobs: one of our own in a few lines, or an existing FedAvg recipe with another selection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import numpy.typing as npt
from nvflare.app_common.workflows.fedavg import FedAvg
from nvflare.client.config import ExchangeFormat
from nvflare.fuel.utils.class_utils import get_component_init_parameters
from nvflare.fuel.utils.constants import FrameworkType
from nvflare.job_config.api import FedJob
from nvflare.job_config.script_runner import ScriptRunner

from sortition.core.errors import InputError, bad
from sortition.nvflare.controller import SelectorController
from sortition.nvflare.fedavg import SelectedFedAvg

Recipe = TypeVar("Recipe")  # a recipe or a job of NVFlare, whose classes are untyped


class Workflow(Protocol):
    """A workflow of a job, as far as it is looked at here."""

    controller: object


WOULD_WORK = """These lines would work:
    recipe = FedAvgRecipe(name="job", model=Net(), min_clients=2, num_rounds=50, train_script="train.py")
    select_clients(recipe, {selector!r}, cohort={cohort})
or, without a recipe, a workflow that also combines updates by other rules and makes other steps:
    job = selector_job("job", "train.py", selector={selector!r}, cohort={cohort}, num_rounds=50, model=parameters)"""


def selector_job(
    name: str,
    script: str,
    *,
    selector: str,
    cohort: int,
    num_rounds: int,
    model: Mapping[str, npt.ArrayLike],
    script_args: str = "",
    framework: FrameworkType = FrameworkType.NUMPY,
    min_clients: int = 1,
    **options: Any,
) -> FedJob:
    """Make a job that trains ``model`` with the sites that a selector chooses.

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
        options: ``step``, and the options of docs/nvflare.md: ``parameters``, ``seed``, ``deadline``, ``checkpoint`` …
    """
    initial_model = {key: _plain(value) for key, value in model.items()}
    step = options.pop("step", None)
    controller = SelectorController(
        selector=selector,
        cohort=cohort,
        num_rounds=num_rounds,
        model=initial_model,
        step=step,
        persistor_id="",
        options=options,
    )
    job = FedJob(name=name, min_clients=min_clients)
    job.to_server(controller)
    job.to_clients(ScriptRunner(script, script_args=script_args, framework=framework))
    return job


def _plain(value: npt.ArrayLike) -> npt.ArrayLike:
    """Return arrays and tensors as nested lists, which JSON can write; anything else as it is."""
    to_list = getattr(value, "tolist", None)
    if to_list is None:
        return value
    nested_lists: npt.ArrayLike = to_list()
    return nested_lists


def select_clients(recipe: Recipe, selector: str, *, cohort: int, **options: Any) -> Recipe:
    """Give an existing FedAvg recipe (or job) another selection: its controller becomes ``SelectedFedAvg``.

    Args:
        recipe: a ``FedAvgRecipe`` of NVFlare, or a ``FedJob`` with a FedAvg controller.
        selector: a method's name, or ``package.module:Class``.
        cohort: sites a round.
        options: those of docs/nvflare.md: ``parameters``, ``seed``, ``deadline``, ``checkpoint`` …
    """
    if getattr(recipe, "server_expected_format", ExchangeFormat.NUMPY) == ExchangeFormat.PYTORCH:
        raise bad("select_clients(recipe)", "one with server_expected_format = ExchangeFormat.NUMPY", "PYTORCH")
    workflows = _workflows(recipe)
    for workflow in workflows:
        if type(workflow.controller) is FedAvg:
            workflow.controller = _selected(workflow.controller, selector, cohort, options)
            return recipe
    controllers = ", ".join(type(workflow.controller).__name__ for workflow in workflows)
    raise InputError(
        "select_clients(recipe) must be given a recipe or job whose workflow is NVFlare's FedAvg; got "
        f"{controllers or 'one without a workflow'}. {WOULD_WORK.format(selector=selector, cohort=cohort)}"
    )


def _workflows(recipe: object) -> list[Workflow]:
    """Return the workflows of a recipe or job; NVFlare offers no public way to look at them."""
    job = recipe
    if not isinstance(recipe, FedJob):
        job = getattr(recipe, "_job", None)
    apps = getattr(job, "_deploy_map", {})
    if "server" not in apps:
        return []
    return list(apps["server"].get_app_config().workflows)


def _selected(fedavg: FedAvg, selector: str, cohort: int, options: Mapping[str, object]) -> SelectedFedAvg:
    """Make the same FedAvg with another selection.

    NVFlare keeps arguments as attributes, with or without an underscore.
    """
    attributes = vars(fedavg)
    arguments: dict[str, object] = {}
    for name in get_component_init_parameters(fedavg).keys() - {"args", "kwargs"}:
        for attribute in (name, f"_{name}"):
            if attribute in attributes:
                arguments[name] = attributes[attribute]
                break
    return SelectedFedAvg(selector, cohort, options=options, **arguments)
