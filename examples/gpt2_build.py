"""A GPT-2 of 124 million parameters in plain torch, for `trainload estimate`.

    trainload estimate examples/gpt2_build.py:build --batch 8 --optimizer adamw --device rtx-3090

A build function takes the batch size and returns the module and a function without arguments
that runs the forward pass on an example batch and returns the loss.
"""

import torch
from torch import nn
from torch.nn import functional

VOCABULARY, CONTEXT, WIDTH, HEADS, BLOCKS = 50257, 1024, 768, 12, 12
MEDIUM = {"width": 1024, "heads": 16, "blocks": 24}


class Block(nn.Module):
    """Attention, then two linear layers, each beside a shortcut."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.joined = nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, tokens, width = x.shape
        parts = self.queries_keys_values(self.norm1(x)).split(width, dim=2)
        shape = (rows, tokens, self.heads, width // self.heads)
        queries, keys, values = (part.view(shape).transpose(1, 2) for part in parts)
        seen = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        x = x + self.joined(seen.transpose(1, 2).reshape(rows, tokens, width))
        return x + self.narrow(functional.gelu(self.wide(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    """Embeddings, blocks, and a head that shares the embedding's weights."""

    def __init__(self, width=WIDTH, heads=HEADS, blocks=BLOCKS):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(
            torch.arange(tokens.shape[1], device=tokens.device)
        )
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def build(batch_size, **size):
    """GPT-2 small on sequences of 1,024 tokens."""
    model = GPT2(**size)
    tokens = torch.zeros(batch_size, CONTEXT, dtype=torch.int64)

    def loss():
        scores = model(tokens)
        return functional.cross_entropy(scores.flatten(0, 1), tokens.flatten())

    return model, loss


def build_medium(batch_size):
    """GPT-2 medium: 355 million parameters."""
    return build(batch_size, **MEDIUM)
