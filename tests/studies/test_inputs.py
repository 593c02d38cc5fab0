"""What models get: images of bytes are scaled, anything else is as it is, whichever way the data come."""

import numpy as np
import polars as pl
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import sortition as so
from sortition.cli.run import print_summary
from sortition.core.errors import InputError
from sortition.data import by_client, from_clients, from_frame

WORDS = 50
TOKENS = np.random.default_rng(0).integers(0, WORDS, (120, 6))
LABELS = (TOKENS[:, 0] >= WORDS // 2).astype(int)
OWNERS = np.arange(120) % 6
SMALL = {"rounds": 2, "cohort": 3, "seeds": 1, "progress": False}
AS_THEY_ARE = "Inputs: whole numbers (int64) from 0 to 49 of shape (6,), as they are."


class BagOfWords(nn.Module):
    """Averages the words' vectors, then a linear layer; it remembers its inputs, so clients train one by one."""

    seen: list[torch.Tensor] = []

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 4)
        self.outputs = nn.Linear(4, 2)

    def forward(self, tokens):
        self.seen.append(tokens)
        return self.outputs(self.words(tokens).mean(1))


def frame():
    columns = {f"word{place}": TOKENS[:, place] for place in range(TOKENS.shape[1])}
    return pl.DataFrame({**columns, "ward": OWNERS, "label": LABELS})


def leaf_folder(folder):
    rows = {"x": TOKENS.tolist(), "y": LABELS.tolist()}
    for part in ("train", "test"):
        (folder / part).mkdir(parents=True)
        text = pl.DataFrame({"text": [str({"users": ["a"], "user_data": {"a": rows}}).replace("'", '"')]})
        (folder / part / "data.json").write_text(text["text"][0])
    return folder


def csv_file(folder):
    frame().write_csv(folder / "tokens.csv")
    return {"name": str(folder / "tokens.csv"), "client": "ward", "label": "label"}


def npz_file(folder):
    np.savez(folder / "tokens.npz", x=TOKENS, y=LABELS)
    return str(folder / "tokens.npz")


DOORS = {
    "arrays": lambda folder: {"data": (TOKENS, LABELS), "clients": 6},
    "lists of clients": lambda folder: {"data": (TOKENS, LABELS), "clients": OWNERS},
    "a table of clients": lambda folder: {"data": {k: (TOKENS[k::6], LABELS[k::6]) for k in range(6)}},
    "TensorDataset": lambda folder: {
        "data": TensorDataset(torch.tensor(TOKENS), torch.tensor(LABELS)),
        "clients": 6,
    },
    "frame": lambda folder: {"data": from_frame(frame(), client="ward", label="label")},
    "csv": lambda folder: {"data": csv_file(folder)},
    "npz": lambda folder: {"data": npz_file(folder), "clients": 6},
    "leaf": lambda folder: {"data": str(leaf_folder(folder / "leaf")), "cohort": 1},
}


@pytest.mark.parametrize("door", DOORS)
def test_tokens_reach_an_embedding_by_every_door(door, tmp_path):
    BagOfWords.seen.clear()
    result = so.compare(["uniform"], model=BagOfWords, engine="sequential", **{**SMALL, **DOORS[door](tmp_path)})
    assert {tokens.dtype for tokens in BagOfWords.seen} == {torch.int64}
    assert max(int(tokens.max()) for tokens in BagOfWords.seen) == WORDS - 1
    (said,) = result.inputs
    assert said.startswith(AS_THEY_ARE)


def test_a_model_that_takes_floats_gets_the_same_numbers_as_floats():
    whole = so.compare(["uniform"], data=(TOKENS, LABELS), clients=6, model="mlp", **SMALL)
    floats = so.compare(["uniform"], data=(TOKENS.astype(np.float32), LABELS), clients=6, model="mlp", **SMALL)
    assert whole.curves["loss"].to_list() == floats.curves["loss"].to_list()


def test_the_header_says_what_was_done_to_the_inputs(tmp_path):
    from rich.console import Console

    images = np.random.default_rng(0).integers(0, 256, (60, 4, 4), dtype=np.uint8)
    result = so.compare(["uniform"], data=(images, LABELS[:60]), clients=6, out=tmp_path / "runs", **SMALL)
    said = "Inputs: images (uint8) of shape (4, 4), divided by 255."
    assert str(result).startswith(said)
    assert said in result._repr_html_()
    assert said in result.report(tmp_path / "page.html").read_text()
    screen = Console(record=True, width=200, quiet=False)
    print_summary(tmp_path / "runs", screen)
    assert said in screen.export_text()


def test_settings_with_other_inputs_are_named(tmp_path):
    result = so.compare(
        ["uniform"], data={"name": "digits", "clients": 6, "partition": "iid"},
        sweep={"data.standardise": [False, True]}, **SMALL,
    )  # fmt: skip
    assert result.inputs == [
        "Inputs of standardise=False: images (uint8) of shape (8, 8), divided by 16.",
        "Inputs of standardise=True: images (uint8) of shape (8, 8), divided by 16, standardised.",
    ]


def test_clients_of_several_types_are_refused():
    images = np.zeros((20, 4, 4), np.uint8)
    with pytest.raises(InputError, match=r"data.x must be of one type for all clients; got examples of float64, uint8"):
        from_clients({"a": (images, LABELS[:20]), "b": (images / 255, LABELS[:20])})


def test_bytes_that_are_no_images_are_as_they_are():
    vectors = by_client(TOKENS.astype(np.uint8), LABELS, OWNERS).scaled()
    assert vectors.x_train.dtype == np.int64
    assert vectors.x_train.max() == WORDS - 1


def test_the_error_of_a_model_that_takes_no_tokens_says_that_they_are_whole_numbers():
    too_wide = nn.Sequential(nn.Linear(9, 2))  # neither the tokens nor their values as floats fit
    with pytest.raises(InputError, match=r"2 logits for each example, int64 of shape \(6,\); got RuntimeError"):
        so.compare(["uniform"], data=(TOKENS, LABELS), clients=6, model=too_wide, jobs=1, **SMALL)
