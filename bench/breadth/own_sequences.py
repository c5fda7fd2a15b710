"""Own modules over sequences: recurrent layers, attention, embeddings and losses of texts."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from breadth.steps import Build, filled, keeper, make_build, mean_square, normal, whole

MODELS: dict[str, Build] = {}
step = keeper(MODELS)
first_class = filled(0)


def _tagger(**options: Any) -> Any:
    sides = 1 + options.get("bidirectional", False)
    return nn.ModuleDict(
        {
            "entry": nn.Embedding(1000, 256),
            "recurrent": nn.LSTM(256, 512, 2, batch_first=True, **options),
            "head": nn.Linear(512 * sides, 10),
        }
    )


@step(lambda: _tagger(dropout=0.2, bidirectional=True), whole(1000, 100), first_class)
def lstm(parts: Any, tokens: Any, targets: Any) -> Any:
    """Two layers both ways."""
    hidden, _ = parts["recurrent"](parts["entry"](tokens))
    return functional.cross_entropy(parts["head"](hidden[:, -1]), targets)


@step(_tagger, whole(1000, 100), filled(80), first_class)
def lstm_packed(parts: Any, tokens: Any, lengths: Any, targets: Any) -> Any:
    """Sequences of different lengths, packed and padded again."""
    packed = pack_padded_sequence(
        parts["entry"](tokens), lengths.cpu(), batch_first=True, enforce_sorted=False
    )
    hidden, (last, _) = parts["recurrent"](packed)
    pad_packed_sequence(hidden, batch_first=True)
    return functional.cross_entropy(parts["head"](last[-1]), targets)


@step(
    lambda: nn.ModuleDict(
        {"recurrent": nn.GRU(64, 128, 2, batch_first=True), "head": nn.Linear(128, 10)}
    ),
    normal(50, 64),
    first_class,
)
def gru(parts: Any, rows: Any, targets: Any) -> Any:
    """Two layers, and the last state of the second."""
    return functional.cross_entropy(parts["head"](parts["recurrent"](rows)[1][-1]), targets)


@step(
    lambda: nn.ModuleDict(
        {"lstm": nn.LSTMCell(64, 128), "gru": nn.GRUCell(64, 128), "head": nn.Linear(128, 10)}
    ),
    normal(20, 64),
)
def recurrent_cells(parts: Any, rows: Any) -> Any:
    """A loop in Python."""
    hidden = torch.zeros(len(rows), 128, device=rows.device)
    memory = torch.zeros_like(hidden)
    for place in range(20):
        hidden, memory = parts["lstm"](rows[:, place], (hidden, memory))
    return parts["head"](hidden).sum() + parts["gru"](rows[:, 0], hidden).sum()


def _encoder() -> Any:
    layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
    return nn.ModuleDict({"body": nn.TransformerEncoder(layer, 4), "head": nn.Linear(256, 10)})


def _padding(batch: int) -> Any:
    return (torch.arange(128) >= 100).expand(batch, 128).clone()


@step(_encoder, normal(128, 256), _padding, first_class)
def encoder_padded(parts: Any, rows: Any, padding: Any, targets: Any) -> Any:
    """torch's encoder with a mask of what is padding."""
    hidden = parts["body"](rows, src_key_padding_mask=padding)
    return functional.cross_entropy(parts["head"](hidden.mean(1)), targets)


@step(
    lambda: nn.Transformer(256, 8, 3, 3, 1024, batch_first=True), normal(64, 256), normal(48, 256)
)
def transformer_causal(model: Any, source: Any, target: Any) -> Any:
    """torch's encoder and decoder, with a causal mask that the step makes."""
    mask = nn.Transformer.generate_square_subsequent_mask(48, device=target.device)
    return model(source, target, tgt_mask=mask, tgt_is_causal=True).pow(2).mean()


@step(lambda: nn.MultiheadAttention(256, 8, batch_first=True), normal(64, 256))
def multihead(attention: Any, rows: Any) -> Any:
    """Weights are asked for too."""
    return attention(rows, rows, rows)[0].pow(2).mean()


def _heads(rows: Any, heads: int) -> Any:
    batch, places, _ = rows.shape
    return rows.view(batch, places, heads, 64).transpose(1, 2)


def _three(linear: Any, rows: Any) -> Any:
    return [_heads(part, 4) for part in linear(rows).chunk(3, -1)]


@step(
    lambda: nn.ModuleDict(
        {"query": nn.Linear(256, 512), "key": nn.Linear(256, 128), "value": nn.Linear(256, 128)}
    ),
    normal(128, 256),
)
def attention_grouped(parts: Any, rows: Any) -> Any:
    """Two heads of keys for eight of queries."""
    query = _heads(parts["query"](rows), 8)
    key, value = (_heads(parts[name](rows), 2) for name in ("key", "value"))
    return (
        functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        .pow(2)
        .mean()
    )


@step(lambda: nn.Linear(256, 768), normal(128, 256))
def attention_flash(linear: Any, rows: Any) -> Any:
    """In fp16 by the kernel that the program names."""
    query, key, value = (part.half() for part in _three(linear, rows))
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        mixed = functional.scaled_dot_product_attention(query, key, value)
    return mixed.float().pow(2).mean()


def _causal(batch: int) -> Any:
    return torch.ones(batch, 1, 100, 100, dtype=torch.bool).tril()


@step(lambda: nn.Linear(256, 768), normal(100, 256), _causal)
def attention_masked(linear: Any, rows: Any, mask: Any) -> Any:
    """With a mask and dropout."""
    mixed = functional.scaled_dot_product_attention(
        *_three(linear, rows), attn_mask=mask, dropout_p=0.1
    )
    return mixed.pow(2).mean()


@step(lambda: nn.Linear(256, 768), normal(256, 256))
def attention_flex(linear: Any, rows: Any) -> Any:
    """flex_attention with a mask of blocks."""

    def causal(batch: Any, head: Any, query: Any, key: Any) -> Any:  # noqa: ARG001
        return query >= key

    mask = create_block_mask(causal, None, None, 256, 256, device=rows.device)
    return flex_attention(*_three(linear, rows), block_mask=mask).pow(2).mean()


@step(lambda: nn.Linear(64, 64), normal(32, 64))
def attention_by_hand(linear: Any, rows: Any) -> Any:
    """einsum, a running sum, a sort and the largest."""
    hidden = linear(rows)
    weights = torch.einsum("btd,bsd->bts", hidden, hidden).softmax(-1)
    mixed = torch.einsum("bts,bsd->btd", weights, hidden).cumsum(1)
    return mixed.sort(-1)[0].topk(5, -1)[0].logsumexp(-1).mean()


@step(
    lambda: nn.ModuleDict(
        {"bag": nn.EmbeddingBag(100_000, 64, mode="sum"), "head": nn.Linear(64, 2)}
    ),
    whole(100_000, many=10),
    first_class,
)
def embedding_bag(parts: Any, words: Any, targets: Any) -> Any:
    """Ten words to a bag."""
    begins = torch.arange(0, len(words), 10, device=words.device)
    return functional.cross_entropy(parts["head"](parts["bag"](words, begins)), targets)


MODELS["embedding_sparse"] = make_build(
    lambda: nn.Embedding(100_000, 64, sparse=True), mean_square, whole(100_000, 10)
)


@step(
    lambda: nn.ModuleDict({"entry": nn.Embedding(1000, 256), "head": nn.Linear(256, 1000)}),
    whole(1000, 128),
    lambda batch: torch.where(torch.arange(128) < 20, 5, -100).expand(batch, 128).clone(),
)
def masked_places(parts: Any, tokens: Any, labels: Any) -> Any:
    """The head at masked places alone, by nonzero."""
    places = (labels != -100).nonzero(as_tuple=True)
    hidden = parts["entry"](tokens)[places]
    return functional.cross_entropy(parts["head"](hidden), labels[places])


@step(lambda: nn.Linear(64, 1000), normal(64), first_class)
def ignored_labels(linear: Any, rows: Any, targets: Any) -> Any:
    """Rows without a label are left out by a mask; labels are smoothed."""
    kept = targets != -100
    return functional.cross_entropy(linear(rows)[kept], targets[kept], label_smoothing=0.1)


def _sounds(batch: int) -> Any:
    return torch.randn(200, batch, 80)


@step(lambda: nn.Linear(80, 30), _sounds, whole(30, 20, least=1), filled(200), filled(20))
def ctc(linear: Any, sounds: Any, letters: Any, heard: Any, said: Any) -> Any:
    """Lengths as tensors."""
    return functional.ctc_loss(linear(sounds).log_softmax(-1), letters, heard, said)


@step(lambda: nn.Linear(80, 30), _sounds, whole(30, 20, least=1))
def ctc_lengths_as_numbers(linear: Any, sounds: Any, letters: Any) -> Any:
    """Lengths as tuples."""
    batch = len(letters)
    scores = linear(sounds).log_softmax(-1)
    return functional.ctc_loss(scores, letters, (200,) * batch, (20,) * batch)


@step(
    lambda: nn.AdaptiveLogSoftmaxWithLoss(64, 10_000, [1000, 5000]),
    normal(64, many=32),
    whole(10_000, many=32),
)
def adaptive_softmax(model: Any, rows: Any, targets: Any) -> Any:
    """Clusters of rare words, each with the rows that fall into it."""
    return model(rows, targets).loss
