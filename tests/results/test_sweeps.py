from sortition.results.sweeps import find_swept_values, value_text, variants


def test_keys_that_differ_between_settings():
    configs = {
        "a": {"setting": "a", "seed": 0, "cohort": 5, "data": {"name": "digits", "alpha": 0.1}},
        "b": {"setting": "b", "seed": 3, "cohort": 5, "data": {"name": "digits", "alpha": 1.0}},
    }
    assert find_swept_values(configs) == {"a": {"data.alpha": 0.1}, "b": {"data.alpha": 1.0}}


def test_methods_that_are_there_with_several_values():
    configs = {
        "fedcor,beta=0.9": {"method": {"name": "fedcor", "label": "x", "beta": 0.9, "warmup": 5}},
        "fedcor,beta=0.5": {"method": {"name": "fedcor", "label": "y", "beta": 0.5, "warmup": 5}},
        "twin": {"method": {"name": "fedgs", "label": "twin"}},
        "other twin": {"method": {"name": "fedgs", "label": "other twin"}},
    }
    assert variants(configs) == {"fedcor": {"fedcor,beta=0.9": {"beta": 0.9}, "fedcor,beta=0.5": {"beta": 0.5}}}


def test_values_as_texts():
    assert [value_text(value) for value in (None, 0.10, 3, "iid")] == ["–", "0.1", "3", "iid"]
