"""Where runs are executed: processes of this machine, or a Ray cluster."""
