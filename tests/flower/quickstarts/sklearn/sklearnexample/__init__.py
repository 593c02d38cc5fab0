"""An app of the usual structure, which knows nothing of Sortition."""
