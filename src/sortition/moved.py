"""Names of modules of before, and where their content is now; only names, nothing is imported.

Presets, study files and headers of audit logs name modules. What version 0.1 called ``sortition.experiments.…`` or
``sortition.core.…`` is understood through this table, whose entries also hold for the modules inside a package.
"""

from __future__ import annotations

MOVED = {
    # reproduction
    "sortition.experiments.figures": "sortition.reproduction.figures",
    "sortition.experiments.preset": "sortition.reproduction.preset",
    "sortition.experiments.reproduce": "sortition.reproduction.reproduce",
    "sortition.experiments.page": "sortition.reproduction.page",
    "sortition.experiments.bias": "sortition.reproduction.theory.bias",
    "sortition.experiments.lots": "sortition.reproduction.theory.enumeration",
    "sortition.experiments.heterogeneity": "sortition.reproduction.theory.heterogeneity",
    "sortition.experiments.stratification": "sortition.reproduction.theory.stratification",
    # results
    "sortition.experiments.toll": "sortition.results.attrition",
    "sortition.experiments.losses": "sortition.results.attrition_tables",
    "sortition.experiments.fairness": "sortition.results.fairness",
    "sortition.experiments.metrics": "sortition.results.metrics",
    "sortition.experiments.records": "sortition.results.run_folder",
    "sortition.experiments.soundness": "sortition.results.schema",
    "sortition.experiments.statistics": "sortition.results.statistics",
    "sortition.experiments.summary": "sortition.results.summary",
    "sortition.experiments.sheet": "sortition.results.table",
    # studies
    "sortition.experiments.notebook": "sortition.studies.from_python",
    "sortition.experiments.config": "sortition.studies.config",
    "sortition.experiments.estimate": "sortition.studies.estimate",
    "sortition.experiments.federation": "sortition.studies.federation",
    "sortition.experiments.methods": "sortition.studies.methods",
    "sortition.experiments.plan": "sortition.studies.plan",
    "sortition.experiments.play": "sortition.studies.runs.one_run",
    "sortition.experiments.runner": "sortition.studies.runs.runner",
    "sortition.experiments.audit": "sortition.studies.audit.run",
    "sortition.experiments.why": "sortition.studies.audit.explain",
    # core
    "sortition.core.audit": "sortition.audit.log",
    "sortition.core.chain": "sortition.audit.hash_chain",
    "sortition.core.compact": "sortition.audit.encoding",
    "sortition.core.recount": "sortition.audit.recompute",
    "sortition.core.logbook": "sortition.audit.log_file",
    "sortition.core.snapshot": "sortition.core.storage.snapshot",
    "sortition.core.trust": "sortition.core.import_policy",
    # learning
    "sortition.learning.nets": "sortition.learning.cnns",
}


def current(module: str) -> str:
    """The name of a module today; one that did not move, or is unknown, stays as it is."""
    package, rest = module, ""
    while package:
        if package in MOVED:
            return MOVED[package] + rest
        package, dot, last = package.rpartition(".")
        rest = f"{dot}{last}{rest}"
    return module
