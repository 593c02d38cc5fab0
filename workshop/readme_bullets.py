"""The bullets at the README's top: what Sortition does, each with a figure from the results and a link."""

from __future__ import annotations

from sortition import selectors
from sortition.leaderboard.board import Board
from sortition.leaderboard.standings import gain_and_interval
from sortition.reproduction.index import extents, items

OUR_METHOD = "microcosm"
BULLETS = """\
- **{n_methods} methods**, each one file to read beside its paper, behind [one interface](docs/methods/index.md).
- **Papers checked, not quoted**: of {n_results} published results and side questions, {n_full} were
  [rerun in full](docs/reproduction/README.md); where we disagree, the page says so.
- **Answers with error bars**: all methods share each seed's data, model and availability, and
  [paired statistics](docs/statistics.md) say better, worse, equal or undecided.{gain}
- **From laptop to federation**: the same method runs in the simulator and in 3 places outside it:
  [Flower](docs/flower.md), [NVFlare](docs/nvflare.md) or [your own server](docs/start/server-loop.md).
- **Large and safe**: 100 of [a million clients](docs/scale.md) are chosen in 1 ms to 0.5 s; a method sees only
  [what you allow](docs/privacy.md), and [guards](docs/guards.md) leave out broken or hostile answers.
"""
GAIN = """
  On {n_cells} [held-out federations](docs/leaderboard.md) our `{method}` gained {gain} points over uniform sampling."""


def bullets(board: Board) -> str:
    """Return the bullets as Markdown; without runs of our method, they quote no gain."""
    extent_by_preset = extents()
    coverages = [extent_by_preset[item.preset].coverage for item in items() if item.preset in extent_by_preset]
    gain = ""
    for standing in board.standings("auc"):
        if standing.method == OUR_METHOD:
            gain = GAIN.format(n_cells=len(board.values("auc")), method=OUR_METHOD, gain=gain_and_interval(standing))
    return BULLETS.format(
        n_methods=len(selectors.discover()),
        n_results=len(items()),
        n_full=coverages.count("in full"),
        gain=gain,
    )
