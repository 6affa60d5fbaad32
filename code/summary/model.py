"""Encoder that reads the function, and decoder that writes the summary word by word."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from summary.pairs import SOURCE_WORDS, START, VOCABULARY

WIDTH, HEADS = 64, 4


class Summariser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        shape: dict[str, Any] = {"dim_feedforward": 4 * WIDTH, "dropout": 0.0, "batch_first": True}
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(SOURCE_WORDS, WIDTH)
        reader = nn.TransformerEncoderLayer(WIDTH, HEADS, **shape)
        writer = nn.TransformerDecoderLayer(WIDTH, HEADS, **shape)
        self.encoder = nn.TransformerEncoder(reader, 1, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(writer, 1)
        self.next_word = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, source: Tensor, summary: Tensor) -> Tensor:
        """Predict each word of the summary from the source and the previous words."""
        start = torch.full_like(summary[:, :1], START)
        before = torch.cat([start, summary[:, :-1]], dim=1)
        length = before.shape[1]
        ahead = torch.ones(length, length, dtype=torch.bool, device=before.device).triu(1)
        read = self.encoder(self.placed(source))
        guesses: Tensor = self.next_word(self.decoder(self.placed(before), read, tgt_mask=ahead))
        return guesses

    def placed(self, row: Tensor) -> Tensor:
        placed: Tensor = self.words(row) + self.places.weight[: row.shape[1]]
        return placed


def loss_of(model: nn.Module, source: Tensor, summary: Tensor) -> Tensor:
    """Return the mean loss over all words of the batch."""
    guesses = model(source, summary)
    return nn.functional.cross_entropy(guesses.flatten(0, 1), summary.flatten())
