"""The rules: which combinations of selection, secure aggregation, differential privacy and cohorts are unsound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sortition.core.selector import Selector
from sortition.core.signals import Signal, sketched
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
        references: who showed it.
    """

    rule: str
    unsound: bool
    sentence: str
    references: tuple[str, ...] = ()

    def __str__(self) -> str:
        cited = f" [{'; '.join(REFERENCES[key] for key in self.references)}]" if self.references else ""
        return f"{'unsound' if self.unsound else 'note'} ({self.rule}): {self.sentence}{cited}"


Found = Iterator[tuple[bool, str, tuple[str, ...]]]
Rule = Callable[[Selector[Any], Promises, Deployment], Found]


def lint(selector: Selector[Any], promises: Promises, deployment: Deployment | None = None) -> list[PrivacyFinding]:
    """What is unsound about a selection under these promises, then what must be seen to; nothing without a promise."""
    facts = deployment or Deployment()
    found = [
        PrivacyFinding(rule.__name__.replace("_", "-"), unsound, sentence, references)
        for rule in RULES
        for unsound, sentence, references in rule(selector, promises, facts)
    ]
    return sorted(found, key=lambda finding: not finding.unsound)


def single_updates(selector: Selector[Any], promises: Promises, facts: Deployment) -> Found:
    """A method that compares updates cannot work on their sum."""
    exact = [signal.name for signal in _signals(selector) if signal.exact]
    if promises.secure_aggregation and exact:
        yield (
            True,
            f"it needs {_joined(exact)} of single clients, and secure aggregation shows sums only.",
            ("bonawitz",),
        )
    if promises.secure_aggregation and facts.combine != "mean":
        why = f"combine = {facts.combine!r} needs single updates, and secure aggregation shows sums only."
        yield True, f"{why} Use the mean.", ("bonawitz",)


def lone_sums(selector: Selector[Any], promises: Promises, facts: Deployment) -> Found:
    """The sum over one client is its update."""
    if not promises.secure_aggregation or facts.guards.minimum > 1:
        return
    if facts.cohort == 1:
        yield True, "a cohort of one: the sum is that client's update.", ("bonawitz",)
    else:
        yield False, "dropouts may leave a sum over one client: set guards.minimum to 2 or more.", ("bonawitz",)


def overlapping_sums(selector: Selector[Any], promises: Promises, facts: Deployment) -> Found:
    """Sums over cohorts that overlap can be solved for single clients."""
    if not promises.secure_aggregation or not selector.isolates or facts.rounds == 1:
        return
    why = "cohorts of different rounds overlap, so that differences of sums isolate clients whose updates change slowly"
    instead = "batch-partitioning chooses whole fixed groups, of which only the group's sum is ever seen."
    many = facts.rounds is not None and facts.clients is not None and facts.rounds >= facts.clients
    if many:
        why += f"; {facts.rounds} rounds are as many equations as {facts.clients} clients need"
    yield many, f"{why}. {instead[0].upper()}{instead[1:]}", ("so",)


def amplification(selector: Selector[Any], promises: Promises, facts: Deployment) -> Found:
    """Sampling amplifies privacy only if the sample does not depend on the data, and stays secret."""
    if not promises.amplification:
        return
    asked = [signal.name for signal in _signals(selector)]
    read = [name for name in _facts(selector) if name not in COUNTED]
    if asked or read:
        why = f"who is chosen depends on clients' data ({_joined([*asked, *read])})"
        yield True, f"{why}: amplification by sampling does not hold. Account for every round in full.", ("balle",)
    else:
        why = "it holds for draws at random with known probabilities, while nobody knows the draw"
        yield False, f"{why}; a published audit log discloses its seed.", ("balle",)


def beside_the_noise(selector: Selector[Any], promises: Promises, facts: Deployment) -> Found:
    """What clients send beside their updates has no noise."""
    if not promises.private:
        return
    if asked := [signal.name for signal in _signals(selector)]:
        yield (
            True,
            f"clients send {_joined(asked)} beside their updates, without noise: ε does not cover it.",
            ("dwork",),
        )
    noisy = selector.parameters().get("epsilon") is not None
    read = [name for name in _facts(selector) if name not in COUNTED]
    if read and noisy:
        yield False, f"the noise on {_joined(read)} has an ε of its own: the budgets add up.", ("dwork",)
    elif read:
        yield True, f"{_joined(read)} are given to the server without noise: ε does not cover them.", ("dwork",)


def label_recovery(selector: Selector[Any], promises: Promises, facts: Deployment) -> Found:
    """Changes of the output layer say which labels a client has."""
    seen = [signal.name for signal in _signals(selector) if sketched(signal.name)[0] in LABELS]
    if seen and (promises.private or promises.secure_aggregation):
        why = f"{_joined(seen)} of a single client: what attacks that recover its labels start from"
        yield True, f"the server sees {why}.", ("zhao", "wainakh")


def sensitivity(selector: Selector[Any], promises: Promises, facts: Deployment) -> Found:
    """Noise is calibrated to the largest weight that one client can have."""
    rule = facts.guards.reweight
    if not promises.private or rule == "uniform":
        return
    if rule == "fedau":
        most = f"cutoff/N = {facts.guards.cutoff}/N" if facts.guards.cutoff else "without a cut-off any weight"
        yield False, f"reweight = 'fedau' gives one client up to {most}: calibrate the noise to that.", ("mcmahan",)
    else:
        why = "weights may differ between clients: calibrate the noise to the largest, or set reweight = 'uniform'."
        yield False, why, ("mcmahan",)


RULES: tuple[Rule, ...] = (
    single_updates,
    lone_sums,
    overlapping_sums,
    amplification,
    beside_the_noise,
    label_recovery,
    sensitivity,
)


def _signals(selector: Selector[Any]) -> list[Signal]:
    """What the method asks or has reported, once each."""
    return list(dict.fromkeys((*selector.needs.asks, *selector.needs.reports)))


def _facts(selector: Selector[Any]) -> list[str]:
    """What it reads, and would read where it is given."""
    return [*selector.needs.reads, *selector.needs.optional]


def _joined(names: list[str]) -> str:
    words = [name.replace("_", " ") for name in names]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
