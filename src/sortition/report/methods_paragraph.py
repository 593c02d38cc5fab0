"""The paragraph of a paper on what was run and how it was compared, with answers to reproducibility checklists."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sortition.core.cost import Until
from sortition.core.errors import InputError
from sortition.report.checklist import selection_alone_point, tuning_point
from sortition.report.description import count_text, stated_devices_text
from sortition.report.digest import Digest
from sortition.report.gather import Gathered, Setting
from sortition.results.object_names import is_given_in_python
from sortition.results.reference_lines import REFERENCES
from sortition.results.statistics import Budget
from sortition.results.sweeps import find_swept_values, value_text
from sortition.results.table import ESCAPES
from sortition.results.verdict_words import end_of_curve, unit_of

SHOWN_SETTINGS = 6  # that are described one by one
SHOWN_SEEDS = 10  # that are listed one by one
HASH_DIGITS = 12
OPTIMIZERS = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW"}
OPTIONS_OF_TRAINING = ("momentum", "weight_decay", "proximal")  # at 0, such an option has no effect
OPTIONS_OF_COMBINING: dict[
    str, tuple[str, ...]
] = {  # rule → its options; other options of the server's table do not change what it computes
    "median": (),
    "trimmed-mean": ("trim",),
    "geometric-median": ("passes", "smoothing"),
    "norm-bound": ("bound",),
    "fedvarp": ("remember",),
    "mifa": ("remember",),
}
OPTIONS_OF_STEP: dict[str, tuple[str, ...]] = {
    "plain": (),
    "momentum": ("momentum",),
    "adam": ("beta1", "beta2", "epsilon"),
}
Formatter = Callable[[str], str]
MethodDifferences = dict[str, dict[str, str]]  # label → subject → text


@dataclass(frozen=True)
class Answer:
    """One question of a reproducibility checklist.

    Attributes:
        asks: what the checklist asks.
        answer: what these runs answer.
    """

    asks: str
    answer: str


@dataclass(frozen=True)
class Method:
    """A method as a paper names it.

    Attributes:
        label: its name in the study.
        parameters: those that the study sets, such as ``d = 15``; all of a method of one's own.
        all_parameters: also those that have their default.
        bibtex_key: the key of its BibTeX entry; empty for a method without one.
    """

    label: str
    parameters: str
    all_parameters: str
    bibtex_key: str


@dataclass(frozen=True)
class MethodsParagraph:
    """What a paper says of a study.

    Attributes:
        version: of Sortition.
        methods: all that were run.
        sentences: those after the first one, which names the methods: setting, seeds, statistics, compute, hashes.
        answers: what answers the questions of the usual reproducibility checklists.
        bibtex: the entries of all methods.
    """

    version: str
    methods: tuple[Method, ...]
    sentences: tuple[str, ...]
    answers: tuple[Answer, ...]
    bibtex: str

    @property
    def text(self) -> str:
        """The paragraph, with keys of citations in brackets."""
        return self._write_paragraph(plain=str, cite=lambda key: f" [{key}]")

    @property
    def latex(self) -> str:
        """The paragraph for LaTeX."""
        return self._write_paragraph(plain=lambda text: text.translate(ESCAPES), cite=lambda key: rf"~\cite{{{key}}}")

    def _write_paragraph(self, *, plain: Formatter, cite: Formatter) -> str:
        """Write the paragraph: ``plain`` formats words, ``cite`` the key of a BibTeX entry."""
        names = []
        for method in self.methods:
            name = plain(method.label)
            if method.bibtex_key:
                name += cite(method.bibtex_key)
            if method.parameters:
                name += plain(f" ({method.parameters})")
            names.append(name)
        version = plain(f" in Sortition {self.version}{self._defaults_text}.")
        first = f"{plain('We compare ')}{join_with_and(names)}{version}"
        return " ".join([first, *map(plain, self.sentences)])

    @property
    def _defaults_text(self) -> str:
        """Say that parameters which are not named have their default, where there are some."""
        if all(method.parameters == method.all_parameters for method in self.methods):
            return ""
        return ", with its default parameters where none are given"

    def __str__(self) -> str:
        """Return paragraph, checklist and BibTeX as Markdown."""
        items = "\n".join(f"- **{answer.asks}** {answer.answer}" for answer in self.answers)
        return f"{self.text}\n\n## Reproducibility checklist\n\n{items}\n\n## BibTeX\n\n{self.bibtex}"


def write_methods_paragraph(gathered: Gathered) -> MethodsParagraph:
    """Describe the finished runs of a study."""
    runs = [run for run in gathered.runs if run.done]
    if not runs:
        raise InputError("The paragraph of a paper must be of finished runs; got none.")
    settings = gathered.settings
    statistics = _statistics_sentence(settings)
    compute = _compute_sentence(runs)
    sentences = [*_setting_sentences(settings), _seeds_sentence(settings), statistics, compute, _hashes_sentence(runs)]
    return MethodsParagraph(
        version=_versions_text(runs),
        methods=tuple(_cited_methods(gathered)),
        sentences=tuple(sentence for sentence in sentences if sentence),
        answers=tuple(_checklist_answers(gathered, runs, statistics=statistics, compute=compute)),
        bibtex="\n\n".join(dict.fromkeys(entry for entry in map(_bibtex, runs) if entry)),
    )


def _cited_methods(gathered: Gathered) -> Iterable[Method]:
    """Yield each method with its parameters and the key of its BibTeX entry."""
    for label in gathered.methods:
        run = next(setting.methods[label][0] for setting in gathered.settings if label in setting.methods)
        parameters = run.manifest.get("parameters") or {}
        table = run.config.get("method") or {}
        is_own = ":" in str(table.get("name", ""))  # an import path
        stated = {name: value for name, value in parameters.items() if is_own or name in table}
        yield Method(
            label=label,
            parameters=_parameters_text(stated),
            all_parameters=_parameters_text(parameters),
            bibtex_key=_bibtex_key(_bibtex(run)),
        )


def _parameters_text(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in parameters.items())


def _bibtex(run: Digest) -> str:
    return str(run.manifest.get("cite") or "").strip()


def _bibtex_key(bibtex: str) -> str:
    """Return the key of a BibTeX entry; empty without one."""
    key = re.match(r"@\w+\s*\{\s*([^,\s{}]+)", bibtex)
    if key:
        return key[1]
    return ""


# -- sentences --------------------------------------------------------------------------------------------------------


def _setting_sentences(settings: Sequence[Setting]) -> list[str]:
    """Describe the first setting, then in what others differ from it; of many settings the first ones."""
    first_setting = settings[0]
    is_named = len(settings) > 1
    first_differences = _method_differences(first_setting)
    sentences = [_setting_sentence(first_setting, named=is_named), *_difference_sentences(first_differences)]
    values_by_setting = find_swept_values({setting.name: setting.first.config for setting in settings})
    first_values = values_by_setting[first_setting.name]
    for setting in settings[1:SHOWN_SETTINGS]:
        values = values_by_setting[setting.name]
        differing = [f"{key} = {value_text(value)}" for key, value in values.items() if value != first_values.get(key)]
        sentences.append(f"Setting {setting.name}: the same, but {', '.join(differing) or 'its name'}.")
        differences = _method_differences(setting, stated_before=first_differences)
        new_differences = {
            label: texts for label, texts in differences.items() if texts != first_differences.get(label)
        }
        sentences += _difference_sentences(new_differences)
    if len(settings) > SHOWN_SETTINGS:
        sentences.append(f"{len(settings) - SHOWN_SETTINGS} more settings are described by their configurations.")
    return sentences


def _method_differences(setting: Setting, stated_before: MethodDifferences | None = None) -> MethodDifferences:
    """Return label → texts on cohort, training, server and guards that differ from those of the setting's first method.

    Args:
        setting: whose methods are compared.
        stated_before: the differences of another setting; a text on the same subject is returned here as well, because
            the reader would otherwise believe that it still holds.
    """
    earlier_differences = stated_before or {}
    common_texts = _method_texts(setting.first.config)
    differences: MethodDifferences = {}
    for label, runs in setting.methods.items():
        earlier_texts = earlier_differences.get(label, {})
        differing_texts = {
            subject: text
            for subject, text in _method_texts(runs[0].config).items()
            if text != common_texts[subject] or subject in earlier_texts
        }
        if differing_texts:
            differences[label] = differing_texts
    return differences


def _method_texts(config: Mapping[str, Any]) -> dict[str, str]:
    """Return subject → text, for all that a method of a study may set for itself."""
    guards = config.get("guards")
    if guards:
        guards_text = f"the guards are {_options_text(guards)}"
    else:
        guards_text = "there are no guards"
    return {
        "cohort": f"{config.get('cohort', '?')} clients are selected",
        "local": f"clients train for {_local_text(config.get('local') or {})}",
        "server": _server_text(config.get("server") or {}),
        "guards": guards_text,
    }


def _difference_sentences(differences: MethodDifferences) -> list[str]:
    """Write one sentence for all methods that differ in the same way."""
    labels_by_text: dict[str, list[str]] = {}
    for label, texts in differences.items():
        labels_by_text.setdefault("; ".join(texts.values()), []).append(label)
    return [f"With {join_with_and(labels)}, however, {text}." for text, labels in labels_by_text.items()]


def _setting_sentence(setting: Setting, *, named: bool) -> str:
    """Describe data, clients, model, local training and server of a setting."""
    config = setting.first.config
    manifest = setting.first.manifest
    data = config.get("data") or {}
    model = manifest.get("model") or config.get("model") or {}
    model_name = model.get("name", "")
    if is_given_in_python(model_name):
        model_text = "our own model"
    else:
        model_text = f"the model {model_name}"
    if isinstance(model.get("parameters"), int):
        size = f" of {model['parameters']:,} parameters"
    else:
        size = ""
    if setting.first.counts:
        n_clients = setting.first.counts["selected"].size
    else:
        n_clients = data.get("clients", "?")
    data_name = data.get("name", "")
    if is_given_in_python(data_name):
        data_text = "our own data set"
    else:
        data_text = f"the data set {data_name}"
    text = f"{data_text} is held by {n_clients} clients"
    text += f" (partition: {_table_text(data.get('partition'), 'as given')}); {_availability_text(setting)}. "
    text += (
        f"In each {_rounds_text(config)} {config.get('cohort', '?')} clients are selected and train "
        f"{model_text}{size}: {_local_text(config.get('local') or {})}; {_server_text(config.get('server') or {})}."
    )
    text += _limit_sentence(config) + _conditions_sentence(config)
    if named:
        return f"Setting {setting.name}: {text}"
    return text[0].upper() + text[1:]


def _rounds_text(config: Mapping[str, Any]) -> str:
    """Say in how many rounds clients are selected."""
    rounds = config.get("rounds")
    if rounds is None:  # the cost alone ends a run
        return "round"
    if config.get("until"):
        return f"of at most {rounds} rounds"
    return f"of {rounds} rounds"


def _limit_sentence(config: Mapping[str, Any]) -> str:
    """Say at which cost a run ends; return an empty text where no cost ends it."""
    limits = config.get("until")
    if not limits:
        return ""
    cost_limit = Until(**limits)
    if cost_limit.currency == "seconds":
        return f" A run ends with the step that reaches {cost_limit} of the simulated clock."
    return f" A run ends with the step that reaches {cost_limit}."


def _table_text(table: object, default: str) -> str:
    """Write a table of a configuration: its name, then its options."""
    if not isinstance(table, Mapping):
        return str(table or default)
    options = [f"{key} = {value_text(value)}" for key, value in table.items() if key != "name"]
    name = str(table.get("name", default))
    if is_given_in_python(name):
        name = "our own"
    return ", ".join([name, *options])


def _availability_text(setting: Setting) -> str:
    """Say how many clients are available on average, and by which mode."""
    mask = setting.availability
    if mask is None or mask.all():
        return "all clients are always available"
    mode = _table_text(setting.first.config.get("availability"), "a trace")
    return f"{100 * mask.mean():.0f} % of them are available on average ({mode})"


def _local_text(local: Mapping[str, Any]) -> str:
    """Describe local training."""
    if "steps" in local:
        work = count_text(local["steps"], "step")
    else:
        work = count_text(local.get("epochs", 1), "epoch")
    optimizer = str(local.get("optimizer", "sgd"))
    text = f"{work} of {OPTIMIZERS.get(optimizer, optimizer)} with batches of {local.get('batch', '?')}"
    text += f" and a learning rate of {value_text(local.get('lr', '?'))}"
    parts = [text, *_schedule_texts(local)]
    options_in_use = [name for name in OPTIONS_OF_TRAINING if local.get(name)]
    parts += [f"{name.replace('_', ' ')} {value_text(local[name])}" for name in options_in_use]
    if local.get("keep_state"):
        parts.append("the optimizer's state kept from one participation to the next")
    return ", ".join(parts)


def _schedule_texts(local: Mapping[str, Any]) -> list[str]:
    """Describe how the learning rate changes between rounds; nothing where it stays the same."""
    texts = []
    decay = local.get("decay", 1.0)
    if decay != 1:
        every = local.get("decay_every", 1)
        period = "round"
        if every != 1:
            period = count_text(every, "round")
        texts.append(f"multiplied by {value_text(decay)} after every {period}")
    milestones = local.get("milestones")
    if milestones:
        rounds = join_with_and([f"round {milestone}" for milestone in milestones])
        texts.append(f"multiplied by {value_text(local.get('drop', '?'))} at {rounds} (counted from 0)")
    return texts


def _server_text(server: Mapping[str, Any]) -> str:
    """Describe how the server combines updates and which step it takes, with the options that these rules have."""
    combine = str(server.get("combine", "mean"))
    if combine == "mean":
        text = "updates are averaged with the weights that the selection method sets"
    else:
        text = f"updates are combined by {combine}"
        option_names = OPTIONS_OF_COMBINING.get(combine, ())
        stated_options = {name: server[name] for name in option_names if name in server}
        if stated_options:
            text += f" ({_options_text(stated_options)})"
        elif option_names:
            text += " with its default options"
    step = str(server.get("name", "plain"))
    rate = server.get("lr", 1.0)
    if step == "plain" and rate == 1:
        return text
    text += f", and the server takes {step} steps at a rate of {value_text(rate)}"
    step_options = {name: server[name] for name in OPTIONS_OF_STEP.get(step, ()) if name in server}
    if step_options:
        text += f" ({_options_text(step_options)})"
    return text


def _options_text(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value_text(value)}" for name, value in options.items())


def _conditions_sentence(config: Mapping[str, Any]) -> str:
    """Describe devices, pace, faults, attacks and guards where they change something."""
    parts = []
    devices = stated_devices_text(config)
    if devices:
        parts.append(f"devices: {devices}")
    for key in ("pace", "faults", "attacks", "guards"):
        table = config.get(key)
        if table:
            parts.append(f"{key}: {_options_text(table)}")
    if not parts:
        return ""
    return f" Conditions: {'; '.join(parts)}."


def _seeds_sentence(settings: Sequence[Setting]) -> str:
    """Say on which seeds methods were run, and what a seed determines."""
    seeds_of_settings = {tuple(setting.seeds) for setting in settings}
    if len(seeds_of_settings) > 1:
        fewest = min(len(seeds) for seeds in seeds_of_settings)
        runs = f"Each method is run on at least {count_text(fewest, 'seed')}"
    else:
        seeds = seeds_of_settings.pop()
        numbers = ", ".join(map(str, seeds[:SHOWN_SEEDS]))
        if len(seeds) > SHOWN_SEEDS:
            numbers += ", …"
        runs = f"Each method is run on {count_text(len(seeds), 'seed')} ({numbers})"
    return (
        f"{runs}; a seed determines partition, initial model, availability and batches, and all methods share it, so "
        "they are compared in pairs."
    )


def _statistics_sentence(settings: Sequence[Setting]) -> str:
    """Say what is compared, with what, and by which test; nothing where nothing is compared."""
    setting = next((setting for setting in settings if setting.against_baseline()), None)
    if setting is None:
        return "No method is compared with a baseline."
    comparison = next(iter(setting.against_baseline().values()))
    basis = setting.comparison.basis
    if isinstance(basis, Budget):
        figure = end_of_curve(basis)
    else:
        figure = f"{setting.end_title} rounds"
    unit = unit_of(setting.metric).name
    if unit:
        margin = f"{setting.criteria.margin:g} {unit}"
    else:
        margin = f"{setting.criteria.margin:g} % of the baseline's loss"
    compared = f"the test {setting.metric} ({figure}, mean over seeds)"
    if setting.criteria.all_pairs:
        pairs = f"{compared} of every pair of methods"
    else:
        pairs = f"{compared} with that of {setting.baseline}"
    if comparison.family > 1:
        correction = f"; intervals (95 %) and p-values are corrected by Bonferroni for the {comparison.family} "
        correction += "comparisons of a setting"
    else:
        correction = " with intervals of 95 %"
    return (
        f"We compare {pairs} by paired t-tests{correction}, and a difference of at most {margin} that two one-sided "
        "tests show is called practically none."
    )


def _compute_sentence(runs: Sequence[Digest]) -> str:
    """Say on what the runs were played, and for how long; each run takes one core."""
    seconds = [float(run.figures.get("wall-clock") or 0.0) for run in runs]
    hours = sum(seconds) / 3600
    machines = sorted({_hardware_text(run.manifest) for run in runs})
    versions = runs[0].manifest.get("versions") or {}
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    a_run = _seconds_text(sum(seconds) / len(runs))
    return (
        f"The {count_text(len(runs), 'run')} took {hours_text(hours)} ({a_run} a run, one core each) on "
        f"{join_with_and(machines)}, with {packages}."
    )


def _hardware_text(manifest: Mapping[str, Any]) -> str:
    """Name the processor, its cores, the accelerator and the platform of a run."""
    hardware = manifest.get("hardware") or {}
    platform = str(manifest.get("platform", "an unknown platform"))
    if not hardware:
        return platform
    parts = [str(hardware.get("processor", "?")), count_text(int(hardware.get("cores", 1)), "core")]
    if "accelerator" in hardware:
        parts.append(str(hardware["accelerator"]))
    return f"{', '.join(parts)} ({platform})"


def hours_text(hours: float) -> str:
    """Write core-hours with two digits, or as a whole number from ten on."""
    if hours < 10:
        return f"{hours:.2g} core-hours"
    return f"{hours:,.0f} core-hours"


def _seconds_text(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.2g} s"
    return f"{seconds:,.0f} s"


def _hashes_sentence(runs: Sequence[Digest]) -> str:
    """Identify data, partitions and own code by their SHA-256."""
    data = sorted({_data_name_and_hash(run) for run in runs})
    partitions = sorted({str((run.manifest.get("data") or {}).get("partition", "")) for run in runs})
    text = f"SHA-256, first {HASH_DIGITS} digits: data {', '.join(data)}; "
    if len(partitions) == 1:
        text += f"partition {partitions[0][:HASH_DIGITS]}"
    else:
        together = hashlib.sha256("\n".join(partitions).encode()).hexdigest()
        text += f"{count_text(len(partitions), 'partition')} together {together[:HASH_DIGITS]}"
    code = sorted(
        {
            f"{_code_name(key, run)} {digest[:HASH_DIGITS]}"
            for run in runs
            for key, digest in (run.manifest.get("python") or {}).items()
            if key != "data.name" or not is_given_in_python(run.config["data"]["name"])  # its hash is that of the data
        }
    )
    if code:
        text += f"; own code {', '.join(code)}"
    return f"{text}."


def _code_name(key: str, run: Digest) -> str:
    """Return what a paper calls the code that a key of the configuration names: ``method ours``, ``data partition``."""
    if key == "method.name":
        return f"method {run.method}"
    return key.removesuffix(".name").replace(".", " ")


def _data_name_and_hash(run: Digest) -> str:
    """Return the first digits of the hash of the data, after their name where they have one."""
    data = run.manifest.get("data") or {}
    digest = str(data.get("digest", "?"))[:HASH_DIGITS]
    name = data.get("name", "?")
    if is_given_in_python(name):
        return digest
    return f"{name} {digest}"


# -- checklist --------------------------------------------------------------------------------------------------------


def _checklist_answers(gathered: Gathered, runs: Sequence[Digest], *, statistics: str, compute: str) -> list[Answer]:
    """Answer what checklists of conferences ask of experiments."""
    settings = gathered.settings
    test_sizes = sorted({int(run.manifest.get("test_examples") or 0) for run in runs})
    fewest = min(sum(run.done for run in runs) for setting in settings for runs in setting.methods.values())
    unfinished = sum(not run.done for run in gathered.runs)
    references = [label for label in gathered.methods if label in REFERENCES]
    answers = [
        Answer(
            "Is the code that ran identified?",
            f"Sortition {_versions_text(runs)}; {_own_code_text(runs)}",
        ),
        Answer("Are the data identified?", _hashes_sentence(runs)),
        Answer(
            "Are the splits given?",
            f"The partitions follow from data, configuration and seed; the model is tested on "
            f"{join_with_and([f'{size:,}' for size in test_sizes])} examples that no client trains on.",
        ),
        Answer(
            "Are all hyper-parameters given, and how they were chosen?",
            f"{_all_parameters_text(gathered)}Each run folder has the resolved configuration (config.toml). "
            f"Choice: {tuning_point(settings).fact}.",
        ),
        Answer(
            "Do methods differ in the selection alone?", selection_alone_point(settings).fact.removesuffix(".") + "."
        ),
        Answer(
            "How many runs is a figure the mean of?", f"At least {fewest} finished runs of each method and setting."
        ),
        Answer("What do the error bars mean?", "± is the standard deviation over seeds; intervals are as said next."),
        Answer("Which test was used?", statistics),
        Answer("Which computers were used, and for how long?", compute),
        Answer(
            "Can the results be computed again?",
            "Yes: the configuration and the seed give the same records, byte for byte, with the same versions on the "
            "same kind of processor.",
        ),
        Answer("Was anything left out?", _left_out_text(gathered, unfinished)),
    ]
    if references:
        answers.append(Answer("Are there reference lines?", f"{join_with_and(references)}; they are not compared."))
    return answers


def _all_parameters_text(gathered: Gathered) -> str:
    """List the parameters of every method, those with their default included; nothing where no method has any."""
    texts = [
        f"{method.label}: {method.all_parameters}. " for method in _cited_methods(gathered) if method.all_parameters
    ]
    return "".join(texts)


def _versions_text(runs: Sequence[Digest]) -> str:
    """List the versions of Sortition that the runs were made with."""
    return join_with_and(sorted({str(run.manifest.get("sortition", "?")) for run in runs}))


def _own_code_text(runs: Sequence[Digest]) -> str:
    if any(run.manifest.get("python") for run in runs):
        return "own methods, models and data by their SHA-256 in each manifest.json."
    return "no code of one's own."


def _left_out_text(gathered: Gathered, unfinished: int) -> str:
    """Say what was left out of the comparison."""
    sentences = list(gathered.warnings)
    if not sentences:
        return f"No: all {count_text(len(gathered.runs), 'run')} are finished and counted."
    if unfinished:
        sentences.insert(0, "Compute and hashes are of finished runs.")
    return " ".join(sentences)


def join_with_and(texts: Sequence[str]) -> str:
    """Write a list in a sentence: ``a``, ``a and b``, ``a, b and c``."""
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} and {texts[-1]}"
