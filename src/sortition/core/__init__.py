"""The vocabulary: rounds, questions, signals, selectors, and the registrar that advances a selection."""

from sortition.core.cohort import Cohort, Round
from sortition.core.errors import (
    DataError,
    InputError,
    SortitionError,
    StorageError,
    UndeclaredError,
)
from sortition.core.guards.settings import Guards
from sortition.core.local_client import LocalClient, LocalResult
from sortition.core.policy import Policy
from sortition.core.population import Population
from sortition.core.questions import Feedback, Measure, Reading
from sortition.core.registrar import Registrar
from sortition.core.selector import Needs, Selector, method
from sortition.core.signals import (
    ACCURACY,
    BATCH_LOSS,
    BIAS_UPDATE,
    DISPERSION,
    DURATION,
    GRADIENT,
    HEAD_UPDATE,
    LOSS,
    PRODUCTS,
    RESOURCES,
    RMS_LOSSES,
    STEP_GRADIENT,
    TRAINING_LOSS,
    UPDATE,
    UPDATE_NORM,
    ModelSize,
    Signal,
    make_probe,
)
from sortition.core.state import State, per_client, per_pair, shared
from sortition.core.streams import stream
from sortition.core.turn import Turn

__all__ = [
    "ACCURACY",
    "BATCH_LOSS",
    "BIAS_UPDATE",
    "DISPERSION",
    "DURATION",
    "GRADIENT",
    "HEAD_UPDATE",
    "LOSS",
    "PRODUCTS",
    "RESOURCES",
    "RMS_LOSSES",
    "STEP_GRADIENT",
    "TRAINING_LOSS",
    "UPDATE",
    "UPDATE_NORM",
    "Cohort",
    "DataError",
    "Feedback",
    "Guards",
    "InputError",
    "LocalClient",
    "LocalResult",
    "Measure",
    "ModelSize",
    "Needs",
    "Policy",
    "Population",
    "Reading",
    "Registrar",
    "Round",
    "Selector",
    "Signal",
    "SortitionError",
    "State",
    "StorageError",
    "Turn",
    "UndeclaredError",
    "make_probe",
    "method",
    "per_client",
    "per_pair",
    "shared",
    "stream",
]
