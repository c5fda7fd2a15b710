"""A Hugging Face Trainer with one line more: each training is a run."""

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from trainload.integrations.huggingface import TrainloadCallback


class Tokens(Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, at):
        row = (at * 7 + torch.arange(32) * 3) % 64
        return {"input_ids": row, "labels": row}


def main():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2)
    arguments = TrainingArguments(
        output_dir="hf-out",
        per_device_train_batch_size=8,
        num_train_epochs=2,
        eval_strategy="epoch",
        save_strategy="no",
        logging_steps=5,
        report_to=[],
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
    )
    trainer = Trainer(
        model=GPT2LMHeadModel(config),
        args=arguments,
        train_dataset=Tokens(),
        eval_dataset=Tokens(),
        callbacks=[TrainloadCallback("hf-example")],  # this line
    )
    trainer.train()


if __name__ == "__main__":
    main()
