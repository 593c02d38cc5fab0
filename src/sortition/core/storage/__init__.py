"""Files that may be hostile or torn: bounded reads, journals, locks, archives of arrays, snapshots; internal."""
