"""The attacks of the campaign pay where no guard is on, so that a guard that fails would be seen."""

from campaign import claims


def test_false_sizes_pay_without_guards_and_not_with_them():
    bare, _, ceiling = (claims.captured("microcosm", {}, "billions", guards, 0, 40)[0] for guards in claims.GUARDS)
    assert bare > 90
    assert ceiling <= 20


def test_a_false_mixture_pays_for_fed_cbs():
    honest, false = (claims.captured("fed-cbs", {}, claim, None, 0, 40)[0] for claim in ("none", "mixture"))
    assert false > 2 * honest


def test_silence_gets_no_places_of_oort_and_no_weight():
    """Who was tried and never answered is no longer new to it."""
    answering, silent = (claims.captured("oort", {}, claim, None, 0, 60) for claim in ("none", "silent"))
    assert silent[0] < answering[0]
    assert silent[1] == 0
