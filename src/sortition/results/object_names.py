"""How configurations name objects that Python gave to a study, and whether a name is one of them."""

from __future__ import annotations

GIVEN_IN_PYTHON = "sortition.studies.python_objects:"  # begins the name of such an object; its kind and digest follow


def is_given_in_python(name: object) -> bool:
    """Tell whether a name stands for an array, function, class or module that Python gave, not for a file or a set."""
    return isinstance(name, str) and name.startswith(GIVEN_IN_PYTHON)


def shown_name(name: object) -> str:
    """Return a name for readers: ``own data`` or ``own model`` for an object that Python gave, any other as it is."""
    if not is_given_in_python(name):
        return str(name)
    kind = str(name).removeprefix(GIVEN_IN_PYTHON).rpartition("_")[0]
    return f"own {kind}"
