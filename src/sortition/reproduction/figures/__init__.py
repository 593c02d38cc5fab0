"""Published pictures that are computed rather than run: one file a subject, named by presets."""
