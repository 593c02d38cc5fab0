"""Which methods a report shows, in which order, under which names. What is tested stays as the study has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sortition.core.errors import InputError, bad, unknown
from sortition.report.digest import Digest
from sortition.report.gather import Gathered, Setting


@dataclass(frozen=True)
class MethodChoice:
    """A choice among the methods of a study. Methods are given by label, or by name where no label is so.

    Attributes:
        only: the methods that are shown; empty for all.
        exclude: methods that are not shown.
        order: methods that come first, in this order; the others follow as the study has them.
        rename: method → the name under which it is shown.
    """

    only: Sequence[str] = ()
    exclude: Sequence[str] = ()
    order: Sequence[str] = ()
    rename: Mapping[str, str] = field(default_factory=dict)

    def apply(self, gathered: Gathered) -> Gathered:
        """Return the same runs with the chosen methods alone, in their order, under their new names.

        Intervals, p and verdicts stay those of all methods of the study: to show fewer of them changes no test.
        """
        if not (self.only or self.exclude or self.order or self.rename):
            return gathered
        names = gathered.names
        only = find_labels("--only", self.only, names)
        excluded = find_labels("--exclude", self.exclude, names)
        first = find_labels("--order", self.order, names)
        new_names = self._new_names(names)
        hidden = {label for label in names if (only and label not in only) or label in excluded}
        settings = []
        for setting in gathered.settings:
            in_order = [label for label in [*first, *setting.methods] if label in setting.methods]
            shown = [label for label in dict.fromkeys(in_order) if label not in hidden]
            _check_shown(setting, shown)
            settings.append(_choose(setting, shown, new_names))
        warnings = list(gathered.warnings)
        if hidden:
            warnings.append(
                f"Methods that are not shown: {', '.join(sorted(hidden))}. Intervals, p and verdicts still count them."
            )
        return replace(gathered, settings=settings, warnings=warnings)

    def _new_names(self, names: Mapping[str, str]) -> dict[str, str]:
        """Return label → the name under which it is shown; refuse two methods under one name."""
        new_names = {label: label for label in names}
        for method, new_name in self.rename.items():
            labels = find_labels("--rename", [method], names)
            if len(labels) > 1:
                raise bad("--rename", "given a label where a method has several", method, f"Labels: {labels}.")
            if not new_name.strip() or not new_name.isprintable():
                raise bad("--rename", "given a new name that can be read", new_name)
            new_names[labels[0]] = new_name.strip()
        label_by_name: dict[str, str] = {}
        for label, new_name in new_names.items():
            if new_name in label_by_name:
                raise bad("--rename", "one name a method", f"{new_name!r} for {label_by_name[new_name]} and {label}")
            label_by_name[new_name] = label
        return new_names


def find_labels(option: str, methods: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """Return the labels that are meant: a label, or all labels of a method's name."""
    labels: list[str] = []
    for method in methods:
        if method in names:
            labels.append(method)
            continue
        of_that_name = [label for label, name in names.items() if name == method]
        if not of_that_name:
            raise unknown(f"method in {option}", method, list(names))
        labels += of_that_name
    return labels


def parse_renames(texts: Sequence[str]) -> dict[str, str]:
    """Return old name → new name of texts such as ``oort=Oort``; the last ``=`` counts, since labels may hold some."""
    renames: dict[str, str] = {}
    for text in texts:
        old_name, equals, new_name = text.rpartition("=")
        if not equals or not old_name:
            raise bad("--rename", "old=new", text)
        renames[old_name] = new_name
    return renames


def _check_shown(setting: Setting, shown: Sequence[str]) -> None:
    """Refuse a choice that leaves nothing to show, or nothing to compare with."""
    if not shown:
        raise InputError(f"--only and --exclude must leave a method of {setting.name}; got none.")
    if setting.baseline is not None and setting.baseline not in shown:
        raise InputError(
            "--only and --exclude must leave the baseline, which others are compared with; got none of "
            f"{setting.baseline}. Choose another with --baseline."
        )


def _choose(setting: Setting, shown: Sequence[str], new_names: Mapping[str, str]) -> Setting:
    """Return a setting that shows these methods, and tests what it tested before."""
    tested = {new_names[label]: _rename_runs(runs, new_names[label]) for label, runs in setting.methods.items()}
    baseline = setting.criteria.baseline
    return replace(
        setting,
        methods={new_names[label]: tested[new_names[label]] for label in shown},
        tested=tested,
        criteria=replace(setting.criteria, baseline=new_names.get(baseline, baseline)),
    )


def _rename_runs(runs: Sequence[Digest], new_name: str) -> list[Digest]:
    return [replace(run, method=new_name) for run in runs]
