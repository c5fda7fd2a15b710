"""Training steps whose memory is both measured on a GPU and estimated without one; runs none.

Each model is a build function: it takes the batch size and returns the module and a function
without arguments that runs the forward pass on an example batch and returns the scalar loss.
`trainload estimate bench/memory_cases.py:resnet50` takes the same function that
`bench/memory_truth.py` measures. Libraries are imported when their model is built; everything is
made on the CPU.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

Loss = Callable[[], Any]
Build = Callable[[int], tuple[Any, Loss]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One training step: a model, its batch size, optimizer and precision."""

    model: str
    batch: int
    optimizer: str
    precision: str

    @property
    def name(self) -> str:
        """`resnet50-b64-adam-float32`."""
        return f"{self.model}-b{self.batch}-{self.optimizer}-{self.precision}"


def make_optimizer(name: str, parameters: Any) -> Any:
    """The optimizer of a case, with torch's own defaults besides the learning rate."""
    parameters = [parameter for parameter in parameters if parameter.requires_grad]
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=1e-4)
    if name == "momentum":
        return torch.optim.SGD(parameters, lr=1e-4, momentum=0.9)
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name](parameters, lr=1e-4)


def classify(model: Any, inputs: Any, classes: int) -> tuple[Any, Loss]:
    """A model of classes with the loss of its answers on these inputs."""
    targets = torch.randint(0, classes, (len(inputs),))

    def loss() -> Any:
        output = model(inputs)
        return functional.cross_entropy(getattr(output, "logits", output), targets)

    return model, loss


def find_library() -> Any:
    """torchvision's models, also beside a torch its compiled half was not built for."""
    if torch.version.cuda is None:
        absent = "torchvision._meta_registrations"
        sys.modules.setdefault(absent, types.ModuleType(absent))
    import torchvision.models

    return torchvision.models


def vision(name: str, side: int = 224, **options: Any) -> Build:
    """A model of torchvision's by its name."""

    def build(batch: int) -> tuple[Any, Loss]:
        model = getattr(find_library(), name)(weights=None, **options)
        return classify(model, torch.randn(batch, 3, side, side), 1000)

    return build


resnet18, resnet50, resnet152 = vision("resnet18"), vision("resnet50"), vision("resnet152")
densenet121, vgg16, alexnet = vision("densenet121"), vision("vgg16"), vision("alexnet")
squeezenet1_1, mobilenet_v3_large = vision("squeezenet1_1"), vision("mobilenet_v3_large")
efficientnet_b0, convnext_tiny = vision("efficientnet_b0"), vision("convnext_tiny")
vit_b_16, swin_t = vision("vit_b_16"), vision("swin_t")
regnet_y_800mf, shufflenet_v2_x1_0 = vision("regnet_y_800mf"), vision("shufflenet_v2_x1_0")
resnext50_32x4d = vision("resnext50_32x4d")


def inception_v3(batch: int) -> tuple[Any, Loss]:
    """With its second head, whose loss counts 0.4."""
    model = find_library().inception_v3(weights=None, init_weights=False, aux_logits=True)
    inputs, targets = torch.randn(batch, 3, 299, 299), torch.randint(0, 1000, (batch,))

    def loss() -> Any:
        output = model(inputs)
        second = functional.cross_entropy(output.aux_logits, targets)
        return functional.cross_entropy(output.logits, targets) + 0.4 * second

    return model, loss


def resnet50_channels_last(batch: int) -> tuple[Any, Loss]:
    """The layout that convolutions on tensor cores prefer."""
    model = find_library().resnet50(weights=None).to(memory_format=torch.channels_last)
    inputs = torch.randn(batch, 3, 224, 224).to(memory_format=torch.channels_last)
    return classify(model, inputs, 1000)


def _text(model: Any, batch: int, steps: int, vocabulary: int, **more: Any) -> tuple[Any, Loss]:
    """A library model that works its loss out itself, from labels at each place."""
    tokens = torch.randint(0, vocabulary, (batch, steps))
    labels = torch.randint(0, vocabulary, (batch, steps))

    def loss() -> Any:
        return model(input_ids=tokens, labels=labels, **more).loss

    return model, loss


def find_transformers() -> Any:
    """The library of that name."""
    find_library()
    import transformers

    return transformers


def _bert(steps: int) -> Build:
    def build(batch: int) -> tuple[Any, Loss]:
        library = find_transformers()
        model = library.BertForMaskedLM(library.BertConfig())
        return _text(model, batch, steps, 30522)

    return build


bert_base_128, bert_base_512 = _bert(128), _bert(512)


def _gpt2(steps: int, **options: Any) -> Build:
    def build(batch: int) -> tuple[Any, Loss]:
        library = find_transformers()
        model = library.GPT2LMHeadModel(library.GPT2Config(**options))
        return _text(model, batch, steps, 50257)

    return build


gpt2_512, gpt2_1024 = _gpt2(512), _gpt2(1024)
gpt2_medium_512 = _gpt2(512, n_embd=1024, n_layer=24, n_head=16)


def distilbert_128(batch: int) -> tuple[Any, Loss]:
    """Sequence classification into two."""
    library = find_transformers()
    model = library.DistilBertForSequenceClassification(library.DistilBertConfig())
    tokens, labels = torch.randint(0, 30522, (batch, 128)), torch.randint(0, 2, (batch,))

    def loss() -> Any:
        return model(input_ids=tokens, labels=labels).loss

    return model, loss


def t5_small_256(batch: int) -> tuple[Any, Loss]:
    """256 places to the encoder and 256 from the decoder."""
    library = find_transformers()
    config = library.T5Config(
        d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, decoder_start_token_id=0
    )
    return _text(library.T5ForConditionalGeneration(config), batch, 256, 32128)


def llama_small_512(batch: int) -> tuple[Any, Loss]:
    """Twelve layers, four heads of keys for twelve of queries."""
    library = find_transformers()
    config = library.LlamaConfig(
        vocab_size=32000,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=12,
        num_attention_heads=12,
        num_key_value_heads=4,
        max_position_embeddings=2048,
    )
    return _text(library.LlamaForCausalLM(config), batch, 512, 32000)


def vit_base(batch: int) -> tuple[Any, Loss]:
    """The transformers library's ViT-B/16 with 1,000 classes."""
    library = find_transformers()
    model = library.ViTForImageClassification(library.ViTConfig(num_labels=1000))
    return classify(model, torch.randn(batch, 3, 224, 224), 1000)


def _zoo(name: str, **words: str) -> Build:
    def build(batch: int) -> tuple[Any, Loss]:
        from trainload.workload.zoo.models import MODELS, build_model, parse_options
        from trainload_worker.frameworks.torch.graph import GraphModule

        graph = build_model(name, parse_options(name, words))
        module = GraphModule(graph.to_spec())
        shape, classes = graph.input_shape, graph.output_shape[-1]
        tokens = MODELS[name].examples == "tokens"
        entry = graph.layers[1].attributes.get("vocabulary", classes)
        inputs = torch.randint(0, entry, (batch, *shape)) if tokens else torch.randn(batch, *shape)
        targets = torch.randint(0, classes, (batch, *graph.output_shape[:-1]))

        def loss() -> Any:
            return functional.cross_entropy(module(inputs).flatten(0, -2), targets.flatten())

        return module, loss

    return build


zoo_mlp, zoo_lenet5, zoo_googlenet = _zoo("mlp"), _zoo("lenet5"), _zoo("googlenet")
zoo_lstm_lm, zoo_transformer_encoder = _zoo("lstm_lm"), _zoo("transformer_encoder")
zoo_resnet152, zoo_densenet121 = _zoo("resnet152"), _zoo("densenet121")
zoo_recurrent, zoo_fully_connected = _zoo("recurrent"), _zoo("fully_connected")
zoo_vgg11, zoo_inception_v3 = _zoo("vgg11"), _zoo("inception_v3")


def _gpt(checkpointed: bool) -> Build:
    def build(batch: int) -> tuple[Any, Loss]:
        from models_torch import Gpt

        model = Gpt(width=512, depth=8, heads=8, checkpointed=checkpointed)
        tokens = torch.randint(0, 50304, (batch, 513))

        def loss() -> Any:
            scores = model(tokens[:, :-1])
            return functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())

        return model, loss

    return build


gpt_plain, gpt_checkpointed = _gpt(False), _gpt(True)


def unet(batch: int) -> tuple[Any, Loss]:
    """Segmentation of 256×256 pixels into 21 classes."""
    from models_torch import UNet

    model = UNet()
    images, targets = torch.randn(batch, 3, 256, 256), torch.randint(0, 21, (batch, 256, 256))

    def loss() -> Any:
        return functional.cross_entropy(model(images), targets)

    return model, loss


def gru_tagger(batch: int) -> tuple[Any, Loss]:
    """64 steps, 50 tags."""
    from models_torch import GruTagger

    model = GruTagger()
    tokens, targets = torch.randint(0, 20000, (batch, 64)), torch.randint(0, 50, (batch, 64))

    def loss() -> Any:
        return functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())

    return model, loss


def time_convolutions(batch: int) -> tuple[Any, Loss]:
    """One second of sound at 16 kHz, 35 classes."""
    from models_torch import TimeConvolutions

    return classify(TimeConvolutions(), torch.randn(batch, 1, 16000), 35)


_TABLE = """
resnet18 128 momentum float32; resnet18 256 adam bf16; resnet50 64 adam float32
resnet50 128 sgd bf16; resnet50 16 adamw float32; resnet50_channels_last 64 momentum bf16
resnet50_channels_last 32 adam float32
resnet152 16 adamw float32; resnet152 4 sgd float32; densenet121 32 momentum float32
densenet121 64 adam bf16; vgg16 64 sgd float32; vgg16 32 adam bf16; inception_v3 32 adam float32
squeezenet1_1 256 sgd float32; alexnet 256 momentum float32; alexnet 128 adam bf16
mobilenet_v3_large 128 adamw float32; mobilenet_v3_large 64 sgd bf16
efficientnet_b0 64 adam float32; convnext_tiny 32 adamw bf16; convnext_tiny 16 sgd float32
vit_b_16 32 adamw float32; vit_b_16 64 adam bf16; swin_t 32 adamw bf16; swin_t 16 momentum float32
regnet_y_800mf 64 adam float32; shufflenet_v2_x1_0 128 sgd float32; resnext50_32x4d 32 adamw bf16
bert_base_128 32 adamw float32; bert_base_512 16 adamw bf16; gpt2_512 8 adamw float32
gpt2_1024 16 adamw bf16; gpt2_medium_512 4 adamw float32; gpt2_medium_512 8 adam bf16
distilbert_128 64 adam bf16; t5_small_256 16 adam float32; t5_small_256 32 adamw bf16
llama_small_512 8 adamw bf16; llama_small_512 4 sgd float32; vit_base 32 sgd bf16
zoo_mlp 256 adam float32; zoo_lenet5 256 sgd float32; zoo_googlenet 64 sgd float32
zoo_lstm_lm 64 sgd float32; zoo_lstm_lm 32 adam bf16; zoo_transformer_encoder 64 adam float32
zoo_transformer_encoder 128 adamw bf16; zoo_resnet152 4 sgd float32; zoo_densenet121 4 adam float32
zoo_recurrent 64 adam float32; zoo_fully_connected 128 adamw bf16; zoo_vgg11 12 momentum float32
zoo_inception_v3 16 adam bf16
gpt_plain 16 adamw bf16; gpt_plain 8 adam float32; gpt_checkpointed 16 adamw bf16
unet 16 adam float32; unet 32 adamw bf16; gru_tagger 128 adam float32
time_convolutions 64 adam float32; time_convolutions 128 momentum bf16
"""


def read_table(text: str) -> list[Case]:
    """Cases written as model, batch, optimizer and precision, with semicolons between."""
    rows = [row.split() for row in text.replace("\n", ";").split(";") if row.strip()]
    return [
        Case(model=model, batch=int(batch), optimizer=optimizer, precision=precision)
        for model, batch, optimizer, precision in rows
    ]


CASES = read_table(_TABLE)


def find_case(name: str) -> Case:
    """The case of that name."""
    return next(case for case in CASES if case.name == name)


def build_case(case: Case) -> tuple[Any, Loss]:
    """The module and the loss of a case, on the CPU, in training mode."""
    module, loss = globals()[case.model](case.batch)
    return module.train(), loss
