"""transformers' models of text: encoders, decoders, mixtures of experts, state spaces, seq2seq."""

from __future__ import annotations

from typing import Any

import torch

from breadth.pretrained import PLACES, Recipe, build_all, long_zeros, tokens

Options = dict[str, Any]


def _plain(batch: int, places: int = PLACES) -> Options:
    """Tokens that are their own labels."""
    words = tokens(batch, places)
    return {"input_ids": words, "labels": words.clone()}


def _masked(batch: int, places: int = PLACES) -> Options:
    """With an attention mask of ones."""
    return {**_plain(batch, places), "attention_mask": torch.ones(batch, places, dtype=torch.long)}


def _padded(batch: int) -> Options:
    """The second half of every example is padding."""
    given = _masked(batch)
    given["attention_mask"][:, PLACES // 2 :] = 0
    given["labels"][:, PLACES // 2 :] = -100
    return given


def _sentences(batch: int) -> Options:
    """One label for an example."""
    return {**_masked(batch), "labels": long_zeros(batch)}


def _replaced(batch: int) -> Options:
    """A yes or no at each place."""
    return {**_masked(batch), "labels": long_zeros(batch, PLACES)}


def _questions(batch: int) -> Options:
    """Where an answer begins and ends."""
    begin = long_zeros(batch)
    return {"input_ids": tokens(batch), "start_positions": begin, "end_positions": begin + 1}


def _long(batch: int) -> Options:
    return _masked(batch, 1024)


def _short(batch: int) -> Options:
    return _plain(batch, 64)


RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "vocab_size": 1000}
DEBERTA_V2 = RELATIVE | {
    "hidden_size": 768,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "max_relative_positions": -1,
    "position_biased_input": False,
}
ALBERT = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
XLNET = {"d_model": 512, "n_layer": 6, "n_head": 8, "d_inner": 2048}
LONGFORMER = {"attention_window": 128, "num_hidden_layers": 4, "max_position_embeddings": 1026}
REFORMER = {
    "is_decoder": True,
    "axial_pos_shape": [16, 16],
    "axial_pos_embds_dim": [64, 192],
    "vocab_size": 1000,
}
FOUR = {"num_hidden_layers": 4}

ENCODERS: dict[str, tuple[str, str, Options]] = {
    "bert": ("Bert", "ForMaskedLM", {}),
    "albert": ("Albert", "ForMaskedLM", ALBERT),
    "modernbert": ("ModernBert", "ForMaskedLM", {"num_hidden_layers": 6}),
    "mpnet": ("MPNet", "ForMaskedLM", {}),
    "funnel": ("Funnel", "ForMaskedLM", {}),
    "longformer": ("Longformer", "ForMaskedLM", LONGFORMER),
    "nystromformer": ("Nystromformer", "ForMaskedLM", FOUR | {"segment_means_seq_len": 256}),
    "yoso": ("Yoso", "ForMaskedLM", FOUR | {"use_expectation": True}),
    "convbert": ("ConvBert", "ForMaskedLM", FOUR),
}
"""With an attention mask: configuration, model, options."""
CLASSIFIERS: dict[str, Options] = {
    "Bert": {},
    "Roberta": {},
    "DistilBert": {},
    "DebertaV2": DEBERTA_V2,
    "Deberta": FOUR | RELATIVE,
    "Canine": FOUR,
}
"""Configuration -> options, of sequence classification."""

SMALL: Options = {
    "hidden_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 1408,
    "vocab_size": 32000,
}
"""A small decoder with two heads of keys for eight of queries."""
ALIKE = """
Llama Mistral Qwen2 Qwen3 Olmo2 Phi3 StableLm Cohere Granite SmolLM3 Glm4 Starcoder2 Helium
Nemotron SeedOss Exaone4 Ernie4_5
"""
"""Decoders that take the small one's options."""
WIDE_HEADS = SMALL | {"head_dim": 64}
NARROW = {key: SMALL[key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads")}
DEEPSEEK_V2 = SMALL | {
    "num_key_value_heads": 8,
    "moe_intermediate_size": 256,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "q_lora_rank": 128,
    "kv_lora_rank": 64,
    "vocab_size": 10000,
}
EXPERTS = SMALL | {"num_experts": 8}
FEW_EXPERTS = SMALL | {"num_local_experts": 4}
QWEN3_NEXT = WIDE_HEADS | {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 128,
    "shared_expert_intermediate_size": 128,
}
SCAN = {"hidden_size": 256, "num_hidden_layers": 2, "vocab_size": 1000}
JAMBA = SCAN | {
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 512,
    "num_experts": 4,
    "attn_layer_period": 2,
    "attn_layer_offset": 1,
    "use_mamba_kernels": False,
}

DECODERS: dict[str, tuple[str, Options]] = {
    "gptj": ("GPTJ", {"n_embd": 512, "n_layer": 4, "n_head": 8, "rotary_dim": 32}),
    "gpt_neo": (
        "GPTNeo",
        {
            "hidden_size": 512,
            "num_layers": 4,
            "num_heads": 8,
            "attention_types": [[["global", "local"], 2]],
        },
    ),
    "gpt_neox": ("GPTNeoX", NARROW | {"intermediate_size": 2048}),
    "opt": ("OPT", FOUR),
    "bloom": ("Bloom", {"hidden_size": 512, "n_layer": 4, "n_head": 8, "vocab_size": 10000}),
    "phi": ("Phi", SMALL | {"num_key_value_heads": 8}),
    "falcon": ("Falcon", NARROW | {"vocab_size": 10000}),
    "gemma": ("Gemma", WIDE_HEADS),
    "gemma2": ("Gemma2", WIDE_HEADS),
    "mixtral": ("Mixtral", FEW_EXPERTS),
    "mixtral_router_loss": ("Mixtral", FEW_EXPERTS | {"output_router_logits": True}),
    "qwen2_moe": (
        "Qwen2Moe",
        EXPERTS | {"moe_intermediate_size": 256, "shared_expert_intermediate_size": 256},
    ),
    "qwen3_moe": ("Qwen3Moe", EXPERTS | {"moe_intermediate_size": 256}),
    "olmoe": ("Olmoe", EXPERTS),
    "gpt_oss": ("GptOss", FEW_EXPERTS | {"head_dim": 64}),
    "deepseek_v2": ("DeepseekV2", DEEPSEEK_V2),
    "deepseek_v3": ("DeepseekV3", DEEPSEEK_V2 | {"n_group": 2, "topk_group": 1}),
    "jamba": ("Jamba", JAMBA),
    "recurrent_gemma": ("RecurrentGemma", SMALL | {"num_hidden_layers": 3}),
    "qwen3_next": ("Qwen3Next", QWEN3_NEXT),
}
"""With an attention mask: configuration, options."""
SCANS: dict[str, tuple[str, Options]] = {
    "mamba": ("Mamba", SCAN),
    "mamba2": ("Mamba2", SCAN | {"num_heads": 8, "head_dim": 64}),
    "falcon_mamba": ("FalconMamba", SCAN),
}
"""State spaces, without an attention mask."""

LAYERS = {"encoder_layers": 4, "decoder_layers": 4}
LED = {"encoder_layers": 2, "decoder_layers": 2, "attention_window": 128}
PROPHETNET = {"num_encoder_layers": 3, "num_decoder_layers": 3}
PAIRS: dict[str, tuple[str, Options]] = {
    "t5": ("T5", {"decoder_start_token_id": 0}),
    "mt5": ("MT5", {"vocab_size": 10000}),
    "bart": ("Bart", LAYERS),
    "pegasus": ("Pegasus", LAYERS),
    "mbart": ("MBart", LAYERS),
    "led": ("LED", LED),
    "m2m100": ("M2M100", LAYERS | {"vocab_size": 10000}),
    "prophetnet": ("ProphetNet", PROPHETNET),
}
"""Encoder and decoder, with an attention mask: configuration, options."""


def _gpt2(**more: Any) -> Recipe:
    options = {"n_layer": 6, "use_cache": False}
    given = {"inputs": _masked, "options": options} | more
    return Recipe(config="GPT2", model="LMHeadModel", **given)


def _llama(**more: Any) -> Recipe:
    given = {"inputs": _masked, "options": SMALL} | more
    return Recipe(config="Llama", model="ForCausalLM", **given)


SINGLE = {
    "bert_padded": Recipe(config="Bert", model="ForMaskedLM", inputs=_padded),
    "bert_eager": Recipe(
        config="Bert", model="ForSequenceClassification", inputs=_sentences, attention="eager"
    ),
    "bert_questions": Recipe(config="Bert", model="ForQuestionAnswering", inputs=_questions),
    "electra": Recipe(config="Electra", model="ForPreTraining", inputs=_replaced),
    "xlnet": Recipe(config="XLNet", model="LMHeadModel", inputs=_plain, options=XLNET),
    "bigbird": Recipe(config="BigBird", model="ForMaskedLM", inputs=_long, options=FOUR),
    "reformer": Recipe(config="Reformer", model="ModelWithLMHead", inputs=_plain, options=REFORMER),
    "fnet": Recipe(config="FNet", model="ForMaskedLM", inputs=_plain, options=FOUR),
    "gpt2": _gpt2(),
    "gpt2_checkpointed": _gpt2(checkpointed=True),
    "gpt2_bf16": _gpt2(dtype=torch.bfloat16),
    "llama_eager": _llama(attention="eager"),
    "llama_checkpointed_bf16": _llama(checkpointed=True, dtype=torch.bfloat16),
    "llama_padded": _llama(inputs=_padded),
    "llama_without_mask": _llama(inputs=_plain),
    "gemma3": Recipe(
        config="Gemma3Text", model="Gemma3ForCausalLM", inputs=_masked, options=WIDE_HEADS
    ),
    "rwkv": Recipe(
        config="Rwkv", model="ForCausalLM", inputs=_short, options=SCAN | {"context_length": 256}
    ),
    "switch_transformers": Recipe(
        config="SwitchTransformers",
        model="ForConditionalGeneration",
        inputs=_plain,
        options={"decoder_start_token_id": 0, "vocab_size": 1000},
    ),
    "marian": Recipe(
        config="Marian",
        model="MTModel",
        inputs=_masked,
        options=LAYERS | {"pad_token_id": 0, "decoder_start_token_id": 0},
    ),
}

RECIPES = (
    {
        name: Recipe(config=config, model=model, inputs=_masked, options=options)
        for name, (config, model, options) in ENCODERS.items()
    }
    | {
        f"{config.lower()}_sentences": Recipe(
            config=config, model="ForSequenceClassification", inputs=_sentences, options=options
        )
        for config, options in CLASSIFIERS.items()
    }
    | {
        config.lower(): Recipe(
            config=config,
            model="ForCausalLM",
            inputs=_masked,
            # Helium's own heads are wider than its width allows for.
            options=(WIDE_HEADS if config == "Helium" else SMALL) | {"pad_token_id": 0},
        )
        for config in ALIKE.split()
    }
    | {
        name: Recipe(config=config, model="ForCausalLM", inputs=_masked, options=options)
        for name, (config, options) in DECODERS.items()
    }
    | {
        name: Recipe(config=config, model="ForCausalLM", inputs=_plain, options=options)
        for name, (config, options) in SCANS.items()
    }
    | {
        name: Recipe(
            config=config, model="ForConditionalGeneration", inputs=_masked, options=options
        )
        for name, (config, options) in PAIRS.items()
    }
    | SINGLE
)
MODELS = build_all(RECIPES)
