"""Which promises of privacy a selection breaks: rules on secure aggregation, differential privacy and cohorts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sortition.core.selector import AnySelector
from sortition.core.signals import Signal, parse_sketch_name
from sortition.privacy.promises import Deployment, Promises

LABELS = ("bias-update", "head-update", "update", "step-gradient", "gradient")  # from which labels can be recovered
COUNTED = ("sizes", "groups")  # facts that say nothing of the content of a client's data
REFERENCES = {
    "bonawitz": "Bonawitz et al. 2017, Practical Secure Aggregation for Privacy-Preserving Machine Learning, CCS",
    "so": "So et al. 2023, Securing Secure Aggregation, AAAI, arXiv 2106.03328",
    "balle": "Balle, Barthe and Gaboardi 2018, Privacy Amplification by Subsampling, NeurIPS, arXiv 1807.01647",
    "dwork": "Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy",
    "zhao": "Zhao, Mopuri and Bilen 2020, iDLG: Improved Deep Leakage from Gradients, arXiv 2001.02610",
    "wainakh": "Wainakh et al. 2022, User-Level Label Leakage from Gradients in Federated Learning, PoPETs, "
    "arXiv 2105.09369",
    "mcmahan": "McMahan et al. 2018, Learning Differentially Private Recurrent Language Models, ICLR, arXiv 1710.06963",
}


@dataclass(frozen=True)
class PrivacyFinding:
    """One sentence about a selection.

    Attributes:
        rule: the rule's name.
        unsound: a promise is broken; False: a condition that nobody checks for you.
        sentence: what is wrong, and what to do.
        references: who showed it, as keys of ``REFERENCES``.
    """

    rule: str
    unsound: bool
    sentence: str
    references: tuple[str, ...] = ()

    def __str__(self) -> str:
        kind = "unsound" if self.unsound else "note"
        text = f"{kind} ({self.rule}): {self.sentence}"
        if self.references:
            text += f" [{'; '.join(REFERENCES[key] for key in self.references)}]"
        return text


Rule = Callable[[AnySelector, Promises, Deployment], Iterator[PrivacyFinding]]


def lint(selector: AnySelector, promises: Promises, deployment: Deployment | None = None) -> list[PrivacyFinding]:
    """List what is unsound about a selection under these promises, then what its operator must see to."""
    if deployment is None:
        deployment = Deployment()
    findings = [finding for rule in RULES for finding in rule(selector, promises, deployment)]
    return sorted(findings, key=lambda finding: not finding.unsound)


def check_single_updates(selector: AnySelector, promises: Promises, deployment: Deployment) -> Iterator[PrivacyFinding]:
    """Find what needs single updates where aggregation is secure: updates cannot be compared by their sum."""
    if not promises.secure_aggregation:
        return
    exact_signals = [signal.name for signal in _signals(selector) if signal.exact]
    if exact_signals:
        yield PrivacyFinding(
            rule="single-updates",
            unsound=True,
            sentence=f"it needs {_list_names(exact_signals)} of single clients, and secure aggregation shows sums "
            "only.",
            references=("bonawitz",),
        )
    if deployment.combine != "mean":
        yield PrivacyFinding(
            rule="single-updates",
            unsound=True,
            sentence=f"combine = {deployment.combine!r} needs single updates, and secure aggregation shows sums only. "
            "Use the mean.",
            references=("bonawitz",),
        )


def check_lone_sums(selector: AnySelector, promises: Promises, deployment: Deployment) -> Iterator[PrivacyFinding]:
    """Find cohorts of one client under secure aggregation: the sum over one client is its update."""
    if not promises.secure_aggregation or deployment.guards.minimum > 1:
        return
    if deployment.cohort == 1:
        sentence = "a cohort of one: the sum is that client's update."
    else:
        sentence = "dropouts may leave a sum over one client: set guards.minimum to 2 or more."
    yield PrivacyFinding(rule="lone-sums", unsound=deployment.cohort == 1, sentence=sentence, references=("bonawitz",))


def check_overlapping_sums(
    selector: AnySelector, promises: Promises, deployment: Deployment
) -> Iterator[PrivacyFinding]:
    """Find cohorts that overlap under secure aggregation: their sums can be solved for single clients."""
    rounds = deployment.rounds
    clients = deployment.clients
    if not promises.secure_aggregation or not selector.can_isolate_a_client or rounds == 1:
        return
    reason = (
        "cohorts of different rounds overlap, so that differences of sums isolate clients whose updates change slowly"
    )
    enough_equations = rounds is not None and clients is not None and rounds >= clients
    if enough_equations:
        reason += f"; {rounds} rounds are as many equations as {clients} clients need"
    remedy = "Batch-partitioning chooses whole fixed groups, of which only the group's sum is ever seen."
    yield PrivacyFinding(
        rule="overlapping-sums", unsound=enough_equations, sentence=f"{reason}. {remedy}", references=("so",)
    )


def check_amplification(selector: AnySelector, promises: Promises, deployment: Deployment) -> Iterator[PrivacyFinding]:
    """Find samples that do not amplify privacy, since they depend on the data or do not stay secret."""
    if not promises.amplification:
        return
    names = data_dependence(selector)
    if names:
        sentence = (
            f"who is chosen depends on clients' data ({_list_names(names)}): amplification by sampling does not hold. "
            "Account for every round in full. 'sortition budget' has no bound for it."
        )
    else:
        sentence = (
            "it holds for draws at random with known probabilities, while nobody knows the draw; a published audit log "
            "discloses its seed. 'sortition budget' computes ε where a bound is known."
        )
    yield PrivacyFinding(rule="amplification", unsound=bool(names), sentence=sentence, references=("balle",))


def check_unnoised_signals(
    selector: AnySelector, promises: Promises, deployment: Deployment
) -> Iterator[PrivacyFinding]:
    """Find what clients send beside their updates, which has no noise."""
    if not promises.private:
        return
    signal_names = _signal_names(selector)
    if signal_names:
        yield PrivacyFinding(
            rule="beside-the-noise",
            unsound=True,
            sentence=f"clients send {_list_names(signal_names)} beside their updates, without noise: ε does not "
            "cover it.",
            references=("dwork",),
        )
    fact_names = _facts_on_data(selector)
    if not fact_names:
        return
    facts_have_noise = selector.parameters().get("epsilon") is not None
    if facts_have_noise:
        sentence = f"the noise on {_list_names(fact_names)} has an ε of its own: the budgets add up."
    else:
        sentence = f"{_list_names(fact_names)} are given to the server without noise: ε does not cover them."
    yield PrivacyFinding(
        rule="beside-the-noise", unsound=not facts_have_noise, sentence=sentence, references=("dwork",)
    )


def check_label_recovery(selector: AnySelector, promises: Promises, deployment: Deployment) -> Iterator[PrivacyFinding]:
    """Find reports of the output layer's change, which says what labels a client has."""
    if not (promises.private or promises.secure_aggregation):
        return
    names = [name for name in _signal_names(selector) if parse_sketch_name(name)[0] in LABELS]
    if names:
        yield PrivacyFinding(
            rule="label-recovery",
            unsound=True,
            sentence=f"the server sees {_list_names(names)} of a single client: what attacks that recover its labels "
            "start from.",
            references=("zhao", "wainakh"),
        )


def check_sensitivity(selector: AnySelector, promises: Promises, deployment: Deployment) -> Iterator[PrivacyFinding]:
    """Find weights that can exceed those to which the noise is calibrated."""
    guards = deployment.guards
    if not promises.private or guards.reweight == "uniform":
        return
    if guards.reweight == "fedau":
        largest = f"cutoff/N = {guards.cutoff}/N" if guards.cutoff else "without a cut-off any weight"
        sentence = f"reweight = 'fedau' gives one client up to {largest}: calibrate the noise to that."
    else:
        sentence = (
            "weights may differ between clients: calibrate the noise to the largest, or set reweight = 'uniform'."
        )
    yield PrivacyFinding(rule="sensitivity", unsound=False, sentence=sentence, references=("mcmahan",))


RULES: tuple[Rule, ...] = (
    check_single_updates,
    check_lone_sums,
    check_overlapping_sums,
    check_amplification,
    check_unnoised_signals,
    check_label_recovery,
    check_sensitivity,
)


def data_dependence(selector: AnySelector) -> list[str]:
    """List the answers, reports and facts on clients' data that decide who is chosen."""
    return [*_signal_names(selector), *_facts_on_data(selector)]


def _signals(selector: AnySelector) -> list[Signal]:
    """List what the method asks or has reported, or may have once it is resolved, once each."""
    needs = selector.needs
    return list(dict.fromkeys((*needs.questions, *needs.reports, *needs.may_report)))


def _signal_names(selector: AnySelector) -> list[str]:
    """List the names of what the method asks or has reported, once each."""
    return [signal.name for signal in _signals(selector)]


def _facts_on_data(selector: AnySelector) -> list[str]:
    """List the facts on the content of clients' data that the method reads, or would read where they are given."""
    needs = selector.needs
    return [name for name in (*needs.reads, *needs.optional) if name not in COUNTED]


def _list_names(names: list[str]) -> str:
    """List names in a sentence: ``a, b and c``."""
    words = [name.replace("_", " ") for name in names]
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} and {words[-1]}"
