"""A Flower app whose clients are chosen by a Sortition selector."""
