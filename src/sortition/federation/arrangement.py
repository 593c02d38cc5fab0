"""Who chooses in a federation, and who chooses in its shadow: methods by name or as objects, and promotions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sortition.core.errors import bad, unknown
from sortition.core.selector import AnySelector, Selector

MOST_SHADOWS = 10
ShadowOption = Sequence[AnySelector | str] | Mapping[str, AnySelector | str] | None


@dataclass(frozen=True)
class Arrangement:
    """Who chooses, and who chooses in its shadow.

    Attributes:
        live: the method whose cohorts train.
        live_label: what it is called among the shadows.
        shadows: the others, by label.
        promoted: whether ``live`` was named by a promotion.
        former: the method whose place it took; None where it is the federation's own.
    """

    live: AnySelector
    live_label: str
    shadows: Mapping[str, AnySelector] = field(default_factory=dict)
    promoted: bool = False
    former: AnySelector | None = None

    @property
    def kept_facts(self) -> tuple[str, ...]:
        """Facts that clients go on to give after a promotion: those that the former live method reads."""
        if self.former is None:
            return ()
        return tuple(fact for fact in self.former.needs.reads if fact not in self.live.needs.reads)


def arranged(
    who: str,
    selector: AnySelector | str,
    shadow: ShadowOption = None,
    promote: str | None = None,
    *,
    label: str | None = None,
) -> Arrangement:
    """Say who chooses.

    Args:
        who: the class that a message names.
        selector: the live method, or its name.
        shadow: methods that choose beside it: a list, or a table by labels.
        promote: the label of a shadow that takes the live method's place, which then becomes a shadow.
        label: of the live method; default: its name.
    """
    live = named_selector(selector)
    live_label = label or _label_of(selector)
    shadows = _shadows(who, shadow)
    if live_label in shadows:
        raise bad(f"{who}.shadow", "other methods than the live one", live_label, "Give it a label: shadow={'b': …}.")
    if promote is None:
        return Arrangement(live, live_label, shadows)
    if promote == live_label:
        return Arrangement(live, live_label, shadows, promoted=True)
    if promote not in shadows:
        raise unknown("shadow", promote, [*shadows, live_label], f"{who}.promote")
    other_shadows = {label: method for label, method in shadows.items() if label != promote}
    return Arrangement(
        live=shadows[promote],
        live_label=promote,
        shadows={**other_shadows, live_label: live},
        promoted=True,
        former=live,
    )


def _shadows(who: str, shadow: ShadowOption) -> dict[str, AnySelector]:
    if shadow is None:
        return {}
    if isinstance(shadow, Mapping):
        labelled_methods = [(str(label), method) for label, method in shadow.items()]
    elif is_several(shadow):
        labelled_methods = [(_label_of(method), method) for method in shadow]
    else:
        raise bad(f"{who}.shadow", "a list of methods, or a table from labels to methods", shadow, 'Write ["oort"].')
    if len(labelled_methods) > MOST_SHADOWS:
        raise bad(f"{who}.shadow", f"at most {MOST_SHADOWS} methods", len(labelled_methods))
    shadows: dict[str, AnySelector] = {}
    for label, method in labelled_methods:
        if label in shadows:
            hint = "Give labels: shadow={'a': …, 'b': …}."
            raise bad(f"{who}.shadow", "methods with labels of their own", f"{label!r} twice", hint)
        if not isinstance(method, str | Selector):
            raise bad(f"{who}.shadow", "names of methods, or Selectors", method)
        shadows[label] = named_selector(method)
    return shadows


def _label_of(method: AnySelector | str) -> str:
    """Return a method's name, or that of its class."""
    if isinstance(method, str):
        return method
    return type(method).__name__


def is_several(value: object) -> bool:
    """Tell whether it is a collection; a text, which is one of letters, is meant as one name."""
    return isinstance(value, Collection) and not isinstance(value, str)


def named_selector(selector: AnySelector | str) -> AnySelector:
    """Return the selector itself, or the one that has this name."""
    if not isinstance(selector, str):
        return selector
    from sortition.selectors import load

    return load(selector)
