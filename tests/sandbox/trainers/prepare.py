"""What a hub has, made here: a model of its own tiny configuration, its tokenizer, and data for SFT and DPO."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = ["<pad>", "<s>", "</s>", "<unk>", "one", "two", "three", "four", "five", "six", "user", "assistant", "is", "?"]
TEMPLATE = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} </s> {% endfor %}"

torch.manual_seed(1)
config = LlamaConfig(
    vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, bos_token_id=1,
    eos_token_id=2, pad_token_id=0, max_position_embeddings=64,
)  # fmt: skip
LlamaForCausalLM(config).save_pretrained("model")
tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
PreTrainedTokenizerFast(
    tokenizer_object=tokenizer,
    bos_token="<s>",
    eos_token="</s>",
    pad_token="<pad>",
    unk_token="<unk>",
    chat_template=TEMPLATE,
).save_pretrained("model")
rows = {"sft": [], "dpo": [], "alpaca": []}
for row in range(128):  # one epoch of LLaMA-Factory on two nodes
    question, right, wrong = (WORDS[4 + (row + other) % 6] for other in range(3))
    rows["sft"].append({"text": f"{question} is {right} two one"})
    rows["dpo"].append({"prompt": f"{question} is", "chosen": f" {right} one", "rejected": f" {wrong} two"})
    rows["alpaca"].append({"instruction": f"{question} is ?", "input": "", "output": f"{right} one"})
for name, lines in rows.items():
    Path(name).mkdir()
    Path(name, "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
Path("alpaca", "dataset_info.json").write_text(json.dumps({"own": {"file_name": "train.jsonl"}}))
