from __future__ import annotations

import numpy as np
import pytest

from sortition.advice.alike import labels_between_clients
from sortition.advice.profile import Limits, Profile, from_profile, shrunk
from sortition.advice.read_description import known_federation
from sortition.core import InputError


def write(folder, text, name="profile.toml"):
    (folder / name).write_text(text)
    return folder / name


def test_label_counts_and_a_trace_are_read_beside_the_profile(tmp_path):
    write(tmp_path, "label,other\n3,1\n0,4\n2,2\n", "counts.csv")
    write(tmp_path, "1,0,1\n0,1,1\n", "trace.csv")
    path = write(
        tmp_path,
        'cohort = 2\nlabel_counts = "counts.csv"\navailability = { name = "trace", path = "trace.csv" }\n'
        "[limits]\nsecure_aggregation = true\n",
    )
    found = known_federation(path)
    assert found.counts.tolist() == [[3, 1], [0, 4], [2, 2]]
    assert [found.present(0).at(t).astype(int).tolist() for t in (0, 1)] == [[1, 0, 1], [0, 1, 1]]
    assert found.limits == Limits(secure_aggregation=True)
    assert found.population.sizes.tolist() == [4, 4, 4]


def test_large_clients_hold_the_same_mixture_where_the_partition_is_iid(tmp_path):
    write(tmp_path, "\n".join(["20000"] * 30), "sizes.csv")
    text = 'cohort = 2\nsizes = "sizes.csv"\nlabels = 10\npartition = { name = "iid" }\n'
    large = known_federation(write(tmp_path, text)).counts
    assert labels_between_clients(large) < 0.002  # drawn from 20 examples a client it was 0.05


def test_without_label_counts_the_partition_spreads_labels_over_the_sizes(tmp_path):
    np.save(tmp_path / "sizes.npy", np.array([5, 50, 20]))
    found = from_profile(Profile(cohort=2, sizes="sizes.npy", labels=4), tmp_path)
    assert found.counts.sum(axis=1).tolist() == [5, 50, 20]
    assert found.counts.shape == (3, 4)
    assert "give label_counts" in found.notes[0]


def test_a_slip_in_its_pace_is_one_sentence(tmp_path):
    text = 'cohort = 2\nclients = 9\npace = { quorum = 0.5, late = "use", staleness = { rule = "saa" } }\n'
    with pytest.raises(InputError, match=r"Unknown key 'rule'; pace\.staleness has name, exponent"):
        known_federation(write(tmp_path, text))


def test_a_first_line_of_numbers_is_a_client(tmp_path):
    counts = np.array([[30, 1], [0, 4], [2, 2]])
    np.savetxt(tmp_path / "floats.csv", counts, delimiter=",")  # 3.0e+01 has a letter
    assert known_federation(tmp_path / "floats.csv", cohort=2).counts.tolist() == counts.tolist()
    (tmp_path / "marked.csv").write_text("30,1\n0,4\n2,2\n", encoding="utf-8-sig")
    assert known_federation(tmp_path / "marked.csv", cohort=2).counts.tolist() == counts.tolist()
    with pytest.raises(InputError, match="finite"):
        known_federation(write(tmp_path, "30,\n0,4\n2,2\n", "gap.csv"), cohort=2)


@pytest.mark.parametrize("key", ["sizes", "label_counts"])
def test_one_column_is_the_size_of_one_client_a_line(tmp_path, key):
    write(tmp_path, "size\n5\n50\n20\n", "sizes.csv")
    found = known_federation(write(tmp_path, f'cohort = 2\n{key} = "sizes.csv"\nlabels = 4\n'))
    assert found.counts.shape == (3, 4)
    assert found.counts.sum(axis=1).tolist() == [5, 50, 20]
    assert known_federation(tmp_path / "sizes.csv", cohort=2).counts.sum(axis=1).tolist() == [5, 50, 20]


def test_sizes_are_one_number_a_line(tmp_path):
    write(tmp_path, "5,50,20\n", "sizes.csv")
    with pytest.raises(InputError, match=r"profile.sizes must be .* one number a line; got shape \(1, 3\)"):
        known_federation(write(tmp_path, 'cohort = 1\nsizes = "sizes.csv"\n'))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("clients = 10", "cohort"),
        ("cohort = 2", "profile.clients must be given"),
        ("cohort = 20\nclients = 10", "profile.cohort must be at most the number of clients, 10; got 20"),
        ("cohort = 2\nclients = 10\nlimit = 1", "limit"),
        ('cohort = 2\nlabel_counts = "none.csv"', "files that exist"),
        ('cohort = 2\nclients = 10\navailability = "sometimes"', "sometimes"),
        ("cohort = 2\nclients = 10\ndropout = 1.5", "dropout"),
    ],
)
def test_bad_profiles_are_refused_in_one_sentence(tmp_path, text, sentence):
    with pytest.raises(InputError, match=sentence):
        known_federation(write(tmp_path, text))


def test_a_table_of_counts_alone_needs_a_cohort(tmp_path):
    path = write(tmp_path, "3,1\n0,4\n", "counts.csv")
    with pytest.raises(InputError, match="--cohort must be given"):
        known_federation(path)
    assert known_federation(path, cohort=1).cohort == 1
    with pytest.raises(InputError, match="source must be"):
        known_federation(tmp_path / "notes.txt")


def test_large_federations_shrink_with_their_cohort(tmp_path):
    whole = from_profile(Profile(cohort=50, clients=1000), tmp_path)
    small = shrunk(whole, 200)
    assert (small.clients, small.cohort) == (200, 10)
    assert "200 of 1000 clients" in small.notes[-1]
    assert shrunk(small, 200) is small


def test_a_cohort_of_one_stays_one(tmp_path):
    assert shrunk(from_profile(Profile(cohort=1, clients=1000), tmp_path), 200).cohort == 1
