"""The character-level LSTM of LEAF's Shakespeare task (Caldas et al. 2018): embedding 8, two layers of 256 there."""

from __future__ import annotations

from torch import Tensor, nn

from sortition.core.errors import bad


class CharLSTM(nn.Module):
    """Gives the scores of the next token (B, C) for tokens (B, T), from the last state of an LSTM."""

    def __init__(self, *, tokens: int, classes: int, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores after the last token."""
        states, _ = self.lstm(self.embedding(x.long()))
        return self.head(states[:, -1])


def char_lstm(
    inputs: tuple[int, ...], classes: int, tokens: int = 128, embedding: int = 8, hidden: int = 128, layers: int = 1
) -> nn.Module:
    """Make an LSTM over tokens below ``tokens``; 77 classes and hidden = 256, layers = 2 is LEAF's net."""
    if len(inputs) != 1:
        raise bad("char-lstm", "given tokens (length,)", f"inputs of shape {inputs}")
    sizes = {"tokens": tokens, "embedding": embedding, "hidden": hidden, "layers": layers}
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 100_000:
            raise bad(f"char-lstm.{name}", "a whole number ≥ 1", value)
    if tokens < classes:
        raise bad("char-lstm.tokens", f"at least {classes}, since the labels are tokens, too", tokens)
    return CharLSTM(tokens=tokens, classes=classes, embedding=embedding, hidden=hidden, layers=layers)
