"""From a run folder to figures, without a training engine: records, metrics, statistics, tables."""
