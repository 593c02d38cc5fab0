"""Which method for *my* federation: matched simulations that rank methods, and replays without training."""
