"""A small GPT that reads and writes characters."""

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Transformer block: self-attention and a perceptron, each after a layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_perceptron = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.attended = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.query_key_value(self.before_attention(x)).split(width, dim=2)
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        attention = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attended(attention.transpose(1, 2).reshape(batch, length, width))
        return x + self.perceptron(self.before_perceptron(x))


class GPT(nn.Module):
    """Predicts the next character at each position."""

    def __init__(self, characters: int, context: int, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.characters, self.positions = nn.Embedding(characters, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, characters, bias=False)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.characters(text) + self.positions(torch.arange(text.shape[1], device=text.device))
        for block in self.blocks:
            x = block(x)
        return self.scores(self.norm(x))
