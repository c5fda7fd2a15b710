"""Build functions for the op trace's tests: some that work, some that cannot be traced."""

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    """One pre-norm block and a tied output matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(500, 64)
        self.norm = nn.LayerNorm(64)
        self.split = nn.Linear(64, 192)
        self.join = nn.Linear(64, 64)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(64, 500, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        value = self.tokens(tokens)
        batch, time, width = value.shape
        parts = self.split(self.norm(value)).split(width, 2)
        heads = [part.view(batch, time, 4, 16).transpose(1, 2) for part in parts]
        attended = functional.scaled_dot_product_attention(*heads, is_causal=True)
        joined = attended.transpose(1, 2).contiguous().view(batch, time, width)
        return self.head(value + self.drop(self.join(joined)))


def attention(batch):
    model, tokens = Attention(), torch.randint(0, 500, (batch, 33))

    def loss():
        scores = model(tokens[:, :-1])
        return functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())

    return model, loss


class Biased(nn.Module):
    """Attention with a learned bias, in one piece or as it comes from its table."""

    def __init__(self, whole: bool) -> None:
        super().__init__()
        self.table, self.whole = nn.Parameter(torch.zeros(32, 32, 4)), whole
        self.parts = nn.Linear(64, 192)

    def forward(self, value):
        batch, time, width = value.shape
        heads = self.parts(value).view(batch, time, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        bias = self.table.permute(2, 0, 1)[None]
        bias = bias.contiguous() if self.whole else bias
        return functional.scaled_dot_product_attention(*heads, attn_mask=bias.to(heads.dtype))


def _biased(whole):
    def build(batch):
        model, given = Biased(whole), torch.randn(batch, 32, 64)
        return model, lambda: model(given).square().mean()

    return build


bias_whole, bias_strided = _biased(True), _biased(False)


def _encoder(batch, mask):
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model, given = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), torch.randn(32, 64)
    rows = given.expand(batch, 32, 64).contiguous()
    return model, lambda: model(rows, mask=mask).square().mean()


def encoder_causal(batch):
    return _encoder(batch, nn.Transformer.generate_square_subsequent_mask(32))


def encoder_other(batch):
    return _encoder(batch, torch.eye(32))


def encoder_unknown(batch):
    model, _ = _encoder(batch, None)
    rows, ones = torch.randn(batch, 32, 64), torch.ones(32, 32)
    return model, lambda: model(rows, mask=torch.log(torch.tril(ones))).square().mean()


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(16, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)

    def forward(self, value):
        return torch.relu(self.norm(self.conv(value)) + value)


def residual(batch):
    layers = [nn.Conv2d(3, 16, 3), Residual(), nn.MaxPool2d(2), Residual(), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(16 * 15 * 15, 10))
    return _classify(model, torch.randn(batch, 3, 32, 32))


def channels_last(batch):
    """Pools with `as_strided_`; its first weights are drawn again until they are small enough."""
    layers = [nn.Conv2d(3, 64, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    head = nn.Linear(64, 10)
    nn.init.trunc_normal_(torch.empty(200, 200))
    assert torch.linspace(0, 0.5, 3)[2].item() == 0.5, "small numbers on the CPU are real"
    model = nn.Sequential(*layers, head).to(memory_format=torch.channels_last)
    return _classify(model, torch.randn(batch, 3, 32, 32).to(memory_format=torch.channels_last))


def perceptron(batch):
    layers = [nn.Linear(300, 400), nn.Tanh(), nn.Dropout(0.5), nn.Linear(400, 400), nn.SiLU()]
    return _classify(nn.Sequential(*layers, nn.Linear(400, 10)), torch.randn(batch, 300))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(32, 64, 2, batch_first=True)
        self.head = nn.Linear(64, 10)

    def forward(self, value):
        return self.head(self.lstm(value)[0][:, -1])


def recurrent(batch):
    return _classify(Recurrent(), torch.randn(batch, 20, 32))


class Sharing(nn.Module):
    def __init__(self, shared, own) -> None:
        super().__init__()
        self.shared, self.own = shared, own


def shared(batch):
    """Parts that all hold the same layers, each beside one of its own."""
    common = nn.ModuleList(nn.Linear(size, size) for size in range(100, 120))
    model = nn.ModuleList(Sharing(common, nn.Linear(size, size)) for size in range(8, 48))

    def loss():
        layers = [*common, *(part.own for part in model)]
        rows = [torch.ones(batch, layer.in_features, device="cuda") for layer in layers]
        return sum(layer(row).sum() for layer, row in zip(layers, rows, strict=True))

    return model, loss


def _classify(model, inputs):
    targets = torch.randint(0, 10, (len(inputs),))
    return model, lambda: functional.cross_entropy(model(inputs), targets)


def branches(batch):
    model, inputs = nn.Linear(10, 10), torch.randn(batch, 10)

    def loss():
        total = model(inputs).sum()
        if total > 0:  # the line that is named
            return total
        return -total

    return model, loss


def reads(batch):
    model, inputs = nn.Linear(10, 10), torch.randn(batch, 10)

    def loss():
        total = model(inputs).sum()
        size = abs(total.item())  # the line that is read on
        return total if size > 0.5 else -total

    return model, loss


def masked(batch):
    """Branches on a mask of the batch and chooses by it, as Hugging Face's models do."""
    model, inputs = nn.Linear(10, 10), torch.randn(batch, 10)
    mask = torch.tensor([1, 1, 0, 1])

    def loss():
        values = model(inputs)
        chosen = values if mask.all() else values[mask.to(values.device).bool()]
        assert mask.sum().item() == 3
        return chosen.sum()

    return model, loss


def written_over(batch):
    """Numbers that were known once and no longer are."""
    model, inputs = nn.Linear(10, 10), torch.randn(batch, 10)
    flags = torch.zeros(batch, 10)

    def loss():
        values = model(inputs)
        flags.copy_(values.detach())
        if flags.sum() > 0:  # the line that is named
            return values.sum()
        return -values.sum()

    return model, loss


def packed(batch):
    model, inputs = Recurrent().lstm, torch.randn(batch, 20, 32)
    lengths = torch.tensor([20, 5, 7, 8])

    def loss():
        rows = nn.utils.rnn.pack_padded_sequence(inputs, lengths, True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(model(rows)[0])[0].sum()

    return model, loss


def aligned(batch):
    model, inputs = nn.Linear(10, 10), torch.randn(50, batch, 10)
    labels, steps, lengths = torch.ones(batch, 6).long(), [50] * batch, [6, 2, 3, 4]

    def loss():
        scores = model(inputs).log_softmax(-1)
        return functional.ctc_loss(scores, labels, steps, lengths)

    return model, loss


class Experts(nn.Module):
    """Four groups of rows, each with its own matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 16, 24))

    def forward(self, rows, ends):
        return torch._grouped_mm(rows, self.weight, offs=ends)


def experts(batch):
    model, rows = Experts(), torch.randn(batch * 8, 16)
    ends = torch.tensor([8, 16, 24, 32], dtype=torch.int32)
    return model, lambda: model(rows, ends).sum()


def compiled(batch):
    model = nn.Linear(10, 10)
    faster, inputs = torch.compile(model), torch.randn(batch, 10)
    return model, lambda: faster(inputs).sum()


def older(batch):
    """As programs made their tensors before devices had names."""
    kind = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
    model, inputs = nn.Linear(10, 10).cuda(), torch.randn(batch, 10)
    target = kind(batch, 10).fill_(1.0)
    return model, lambda: (model(inputs.type(kind)) - target - kind([1.0])).square().sum()


def sparse(batch):
    model, inputs = nn.Linear(10, 10), torch.eye(batch).to_sparse()
    return model, lambda: torch.sparse.mm(inputs, model(torch.ones(batch, 10))).sum()


def scripted(batch):
    model, inputs = torch.jit.script(nn.Linear(10, 10)), torch.randn(batch, 10)
    return model, lambda: model(inputs).sum()


def checked(batch):
    """torch.distributions looks whether its numbers are what they must be."""
    model, inputs = nn.Linear(10, 10), torch.randn(batch, 10)
    kind = torch.distributions.Normal
    return model, lambda: kind(model(inputs), 1.0, validate_args=True).rsample().sum()


def chooses(batch):
    model, inputs = nn.Linear(10, 10), torch.randn(batch, 10)

    def loss():
        values = model(inputs)
        return values[values > 0].sum()

    return model, loss


def custom(batch):
    library = torch.library.Library("op_trace_tests", "DEF")
    library.define("twice(Tensor value) -> Tensor")
    model, inputs = nn.Linear(10, 10), torch.randn(batch, 10)
    return model, lambda: (library, torch.ops.op_trace_tests.twice(model(inputs)).sum())[1]


def never_ends(batch):
    model, inputs = nn.Linear(10, 10), torch.randn(batch, 10)

    def loss():
        while True:
            model(inputs)

    return model, loss


def gives_nothing(batch):
    return nn.Linear(batch, 10), lambda: None


def gives_many(batch):
    model, inputs = nn.Linear(10, 10), torch.randn(batch, 10)
    return model, lambda: model(inputs)


def frozen(batch):
    model, inputs = nn.Linear(10, 10).requires_grad_(False), torch.randn(batch, 10)
    return model, lambda: model(inputs).sum()


def raises(batch):
    raise ValueError(f"no batch of {batch}")


def alone(_batch):
    return nn.Linear(10, 10)
