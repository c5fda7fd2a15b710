"""A Hugging Face Trainer run as anyone writes it: a small BERT on made-up sentences.

Knows nothing of trainload: `trainload run bench/scripts/hf_trainer.py -- --steps 300`.
"""

import argparse

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--width", type=int, default=768)
parser.add_argument("--accumulate", type=int, default=2)
parser.add_argument("--workers", type=int, default=2)
options = parser.parse_args()


class Sentences(torch.utils.data.Dataset):
    """Random tokens with a random label, the same for an index every time."""

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(0, 30_000, (128,), generator=generator)
        return {"input_ids": tokens, "labels": tokens[0] % 2}


torch.manual_seed(0)
config = BertConfig(
    num_hidden_layers=options.layers,
    hidden_size=options.width,
    intermediate_size=4 * options.width,
    num_attention_heads=options.width // 64,
)
arguments = TrainingArguments(
    output_dir="hf-output",
    max_steps=options.steps,
    per_device_train_batch_size=options.batch,
    gradient_accumulation_steps=options.accumulate,
    dataloader_num_workers=options.workers,
    bf16=torch.cuda.is_available(),
    logging_steps=50,
    save_strategy="no",
    report_to=[],
    disable_tqdm=True,
)
Trainer(
    model=BertForSequenceClassification(config), args=arguments, train_dataset=Sentences()
).train()
