"""The campaign: soak, kills, fuzzing and the long run. ``python -m campaign`` tells what there is."""
