"""Settings of a policy, its rules under their keys, and what each rule says in words."""

import pytest

from sortition import Policy
from sortition.core import InputError
from sortition.core.policy import RULES, Rule, Span, as_policies, explain_exclusion

WHOLE = Policy(
    separation="6 hours",
    participations=2,
    megabytes=50,
    window="1 day",
    lifetime=100,
    hours="22-6",
    examples=20,
    battery=0.3,
    charging=True,
    idle=True,
)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Policy must be given at least one limit; got none"),
        ({"participations": 2}, "Policy.window must be given with participations or megabytes; got nothing"),
        ({"participations": 2, "window": "86400"}, "Policy.window must be a number and a unit; got '86400'"),
        ({"participations": 2, "window": 86400}, "Policy.window must be a number and a unit; got 86400"),
        ({"participations": -1, "window": "1 day"}, "Policy.participations must be a whole number ≥ 0; got -1"),
        ({"lifetime": 2**53 + 1}, "Policy.lifetime must be at most 9007199254740992; got 9007199254740993"),
        ({"participations": True, "window": "1 day"}, "Policy.participations must be a whole number ≥ 0; got True"),
        ({"lifetime": 3, "window": "1 day"}, "Policy.window must be given with participations or megabytes only"),
        ({"separation": "1.5 rounds"}, "Policy.separation must be a whole number of rounds"),
        ({"separation": "0 hours"}, "Policy.separation must be a whole number of rounds, or a time above 0"),
        ({"battery": 30}, "Policy.battery must be a share in .0, 1.; got 30.0. 30 % is 0.3"),
        ({"megabytes": float("nan"), "window": "1 day"}, "Policy.megabytes must be a number ≥ 0"),
        ({"hours": "22-22"}, "Policy.hours must be two different hours of a day"),
        ({"hours": "night"}, "Policy.hours must be two different hours of a day"),
        ({"charging": 1}, "Policy.charging must be true or false; got 1"),
        ({"lifetime": 3, "per": "site"}, "Policy.per must be 'client', 'owner' or 'tag'; got 'site'"),
        ({"battery": 0.3, "per": "owner"}, "Policy.per must be 'client' where nothing is counted"),
        ({"battery": 0.3, "only": "phone"}, "Policy.only must be a list of names and tags; got 'phone'"),
        ({"battery": 0.3, "local_hours": True}, "Policy.local_hours must be given with hours only"),
    ],
)
def test_a_bad_policy_is_refused_in_one_sentence(options, message):
    with pytest.raises(InputError, match=message):
        Policy(**options)


def test_every_rule_has_a_key_that_holds_the_whole_rule():
    keys = [rule.key for rule in WHOLE.rules]
    assert keys == [
        "hours=22-6",
        "separation=6 hours",
        "participations=2/1 day",
        "megabytes=50/1 day",
        "lifetime=100",
        "examples=20",
        "battery=0.3",
        "charging",
        "idle",
    ]
    assert [Rule.parse(key) for key in keys] == list(WHOLE.rules)


def test_keys_of_shared_and_partial_rules_are_read_back():
    policy = Policy(participations=5, window="2 weeks", lifetime=9, per="owner", only=("phone", "tablet"))
    assert policy.rules[0].key == "participations=5/2 weeks per owner only phone, tablet"
    assert [Rule.parse(rule.key) for rule in policy.rules] == list(policy.rules)


def test_reasons_in_words():
    assert {rule.name: explain_exclusion(rule.key) for rule in WHOLE.rules} == {
        "hours": "outside of the hours 22-6 of the server's clock",
        "separation": "chosen less than 6 hours before",
        "participations": "chosen 2 of 2 times within 1 day",
        "megabytes": "one more training would exceed 50 MB within 1 day",
        "lifetime": "chosen 100 of 100 times in all",
        "examples": "fewer than 20 examples",
        "battery": "its battery is below 0.3 of full",
        "charging": "not charging",
        "idle": "not idle",
    }
    shared = Policy(participations=5, window="1 day", per="owner").rules[0]
    assert (
        explain_exclusion(shared.key) == "its owner has no place left under the limit of 5 participations within 1 day"
    )
    assert explain_exclusion("something else=3") == "something else=3"


def test_facts_that_its_rules_look_at():
    assert WHOLE.facts == ("sizes", "battery", "charging", "idle")
    assert Policy(hours="8-18", local_hours=True).facts == ("utc_offset",)
    assert Policy(lifetime=3).facts == ()


@pytest.mark.parametrize("name", RULES)
def test_without_one_rule_the_others_stay(name):
    left = [rule.name for rule in WHOLE.without(name).rules]
    assert left == [rule for rule in RULES if rule != name]


def test_without_its_only_rule_nothing_is_left():
    assert Policy(participations=2, window="1 day").without("participations") is None
    assert Policy(lifetime=2, battery=0.2, per="owner").without("lifetime") == Policy(battery=0.2)


def test_what_changed_makes_the_same_policy():
    for policy in (WHOLE, Policy(lifetime=3, per="tag", only=["phone"])):
        assert Policy(**policy.changed()) == policy


def test_spans():
    assert Span.read("x", "3 rounds") == Span("3 rounds", 3.0, True)
    assert Span.read("x", "1.5 hours").amount == 5400


def test_one_policy_or_several():
    assert as_policies("x", None) == ()
    assert as_policies("x", WHOLE) == (WHOLE,)
    with pytest.raises(InputError, match="x must be a Policy or a list of them"):
        as_policies("x", {"lifetime": 3})
