"""Studies: one TOML file, many runs, published tables."""
