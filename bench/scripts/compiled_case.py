"""A compiled training as anyone writes it.

    python bench/scripts/compiled_case.py gpt|gpt_blocks|resnet50 STEPS [small]

Knows nothing of trainload. `gpt_blocks` compiles each block by itself; `small` is for a CPU.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads = heads

    def forward(self, x):
        batch, length, width = x.shape
        parts = [
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.c_attn(x).split(width, 2)
        ]
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.c_proj(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, words, width, depth, heads, length):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, width), nn.Embedding(length, width)
        self.h = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def gpt(small, blocks):
    words, width, depth, heads, length, batch = (
        (512, 256, 2, 4, 128, 4) if small else (50304, 768, 12, 12, 1024, 8)
    )
    model = Gpt(words, width, depth, heads, length).to(DEVICE)
    if blocks:
        for block in model.h:
            block.compile()
    called = model if blocks else torch.compile(model)

    def loss():
        tokens = torch.randint(0, words, (batch, length), device=DEVICE)
        return called(tokens, tokens)

    return torch.optim.AdamW(model.parameters(), 1e-4), loss


def resnet50(small, _blocks):
    import torchvision

    model = torchvision.models.resnet50().to(DEVICE).to(memory_format=torch.channels_last)
    called = torch.compile(model)
    batch = 4 if small else 64
    rows = torch.randn(batch, 3, 224, 224, device=DEVICE).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (batch,), device=DEVICE)

    def loss():
        return functional.cross_entropy(called(rows), labels)

    return torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), loss


def main():
    case, steps, small = sys.argv[1], int(sys.argv[2]), "small" in sys.argv[3:]
    make = resnet50 if case == "resnet50" else gpt
    optimizer, loss_of = make(small, case == "gpt_blocks")
    for _ in range(steps):
        with torch.autocast(DEVICE, torch.bfloat16, enabled=CUDA):
            loss = loss_of()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print("loss", float(loss.detach()))


main()
