from sortition.federation.members import natural_order


def test_natural_order_of_mixed_names():
    assert sorted(["b2", "b10", "a", "10", "9", "b2c"], key=natural_order) == ["9", "10", "a", "b2", "b2c", "b10"]


def test_any_text_can_be_a_name():
    names = ["²", "٣", "9" * 5000, "\x00", "client-10", "client-2"]
    assert sorted(names, key=natural_order).index("client-2") < sorted(names, key=natural_order).index("client-10")
