"""Hugging Face's Trainer with its own command line, as examples/pytorch of transformers use it."""

import torch
from torch.utils.data import Dataset
from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed


class Numbers(Dataset):
    """Counting, in 64 lines."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        ids = (torch.arange(16) + index) % 60
        return {"input_ids": ids, "labels": ids}


(arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
set_seed(arguments.seed)
config = LlamaConfig(
    vocab_size=64,
    hidden_size=16,
    intermediate_size=32,
    num_hidden_layers=1,
    num_attention_heads=2,
    # Not with JIT checkpoints: saved before an optimizer step, they repeat that step with the random state after it
    # (`on_pre_optimizer_step` in trainer_jit_checkpoint.py, transformers 5.23.0).
    attention_dropout=0.0 if arguments.enable_jit_checkpoint else 0.1,
)
trainer = Trainer(model=LlamaForCausalLM(config), args=arguments, train_dataset=Numbers())
trainer.train(resume_from_checkpoint=arguments.resume_from_checkpoint)
trainer.save_model()
