"""What the frozen suite 2 says to somebody with these limits; not of their federation, but of many."""

from __future__ import annotations

from sortition.advice.candidates import reason
from sortition.advice.profile import Limits
from sortition.leaderboard.entrants import load_configurations
from sortition.leaderboard.published import Published, load_published

ROWS_SHOWN = 3


def standings_note(limits: Limits, *, by_time: bool, published: Published | None = None) -> str:
    """Say who leads on the held-out cells among the rows that the limits allow; nothing where no table is complete."""
    published = published or load_published()
    track_name = "rounds"
    measure = "by rounds"
    if by_time:
        track_name = "seconds"
        measure = "by the clock"
    track = published.tracks.get(track_name)
    if track is None:
        return ""
    allowed = [entrant.label for entrant in load_configurations().defaults() if not reason(entrant.needs, limits)]
    best = track.best(allowed, ROWS_SHOWN)
    place = f"On {track.cells} held-out federations of {published.suite}, {measure}"
    if not best:
        return f"{place}, no allowed method gains over uniform."
    rows = "; ".join(f"{row}{'' if row.separated else ', not separated from it'}" for row in best)
    return f"{place}, these gain most over uniform among the allowed: {rows} (points, 95 % intervals)."
