"""A small model and its training step."""

from __future__ import annotations

import torch
from torch import nn

MODEL = nn.Sequential(nn.Embedding(256, 64), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 256))
OPTIMIZER = torch.optim.SGD(MODEL.parameters(), lr=0.1)


def inputs(steps: int) -> list[torch.Tensor]:
    """A batch of tokens for each step."""
    torch.manual_seed(0)
    return [torch.randint(256, (8, 33)) for _ in range(steps)]


def train_step(tokens: torch.Tensor) -> None:
    """Predict each next token, and learn from it."""
    OPTIMIZER.zero_grad()
    logits = MODEL(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    OPTIMIZER.step()
