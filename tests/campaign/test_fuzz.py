"""A cut of the fuzzing: hypothesis draws what the campaign draws by seed, and shrinks what it finds."""

import random
from argparse import Namespace
from contextlib import suppress

import pytest
from campaign.fuzz.guided import Bytes
from campaign.fuzz.loop import Hang, Tally, Target, loop, place
from campaign.fuzz.run import TARGETS, run, target
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sortition.core.errors import InputError, SortitionError
from sortition.selectors import find

FLOWER = ("messages", "servers", "metrics")
QUICK = [name for name in TARGETS if name not in ("studies", *FLOWER)]


@pytest.mark.filterwarnings("ignore")  # of numpy about spoiled numbers
@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.flower) for name in FLOWER)])
def test_only_errors_of_ours_come_out(name):
    fuzzed = target(name)
    inputs = 0

    @settings(max_examples=15, suppress_health_check=list(HealthCheck))
    @given(st.randoms(use_true_random=False))
    def play(source):
        nonlocal inputs
        inputs += 1
        with suppress(SortitionError):
            fuzzed.play(source)

    play()
    assert inputs >= 15


@pytest.mark.filterwarnings("ignore")
def test_studies_by_seed():
    assert not loop(target("studies"), seed=1, inputs=120, seconds=20).found


def test_time_is_shared_out(monkeypatch, capsys):
    given = {}

    def fake(target, *, seconds, **_):
        given[target.name] = seconds
        return Tally(target.name)

    monkeypatch.setattr("campaign.fuzz.run.loop", fake)
    run(Namespace(targets=QUICK, seconds=100.0, seed=0, inputs=1, state=""))
    assert sum(given.values()) == pytest.approx(100)
    assert given["rows"] * 4 == given["audits"] == given["checkpoints"]


class TestTheLoop:
    def test_what_is_not_ours_is_found_and_can_be_had_again(self):
        def play(source):
            if source.random() < 0.2:
                raise KeyError("x")
            if source.random() < 0.5:
                raise InputError("ours")
            return 1

        one, again = (loop(Target("t", play), inputs=40) for _ in range(2))
        assert one.found.keys() == {"KeyError at outside"}
        assert one.inputs == again.inputs == 40
        assert one.refused == again.refused > 0
        number = one.found["KeyError at outside"][0]
        assert loop(Target("t", play), first=number, inputs=1).found

    def test_a_hang_and_a_blow_up_are_found(self, monkeypatch):
        monkeypatch.setattr("campaign.fuzz.loop.HANG", 0.05)

        def hangs(source):
            while True:
                pass

        assert list(loop(Target("t", hangs), inputs=1).found) == [f"{Hang.__name__} at outside"]
        assert list(loop(Target("t", lambda _: len(bytearray(8 << 30))), inputs=1).found) == ["MemoryError at outside"]


def test_bytes_are_a_random_source():
    source = Bytes(bytes(range(1, 60)))
    assert isinstance(source, random.Random)
    assert source.random() == Bytes(bytes(range(1, 60))).random()
    assert 0 <= source.randrange(7) < 7
    assert Bytes(b"").random() == 0.0


def test_only_frames_of_the_package_are_our_own(tmp_path):
    file = tmp_path / "sortition" / "clone.py"
    with pytest.raises(KeyError) as caught:
        exec(compile("{}['x']", str(file), "exec"))  # noqa: S102
    assert place(caught.value) == "KeyError at outside"
    with pytest.raises(InputError) as caught:
        find("no such method")
    assert place(caught.value).startswith("InputError at selectors/_find_by_name.py:")
