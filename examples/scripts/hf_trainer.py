"""A Hugging Face Trainer on a tiny GPT-2 that starts from nothing: evaluation and checkpoints."""

import argparse

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Tokens(Dataset):
    """Rows of made-up tokens in which each one follows from the one before."""

    def __init__(self, rows: int, length: int, vocabulary: int) -> None:
        starts = torch.arange(rows).unsqueeze(1)
        self.rows = (starts * 7 + torch.arange(length) * 3) % vocabulary

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[at], "labels": self.rows[at]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--out", default="hf-out")
    options = parser.parse_args()
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=128, n_positions=64, n_embd=64, n_layer=2, n_head=2)
    arguments = TrainingArguments(
        output_dir=options.out,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=options.accumulate,
        max_steps=options.steps,
        eval_strategy="steps",
        eval_steps=options.steps // 3,
        save_steps=options.steps // 3,
        logging_steps=20,
        report_to=[],
    )
    trainer = Trainer(
        model=GPT2LMHeadModel(config),
        args=arguments,
        train_dataset=Tokens(2048, 64, 128),
        eval_dataset=Tokens(256, 64, 128),
    )
    trainer.train()


if __name__ == "__main__":
    main()
