"""The soak of operation: two federations with policies, metrics and shadows, killed and restarted on one ledger."""
