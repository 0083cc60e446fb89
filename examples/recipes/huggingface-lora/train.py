"""LoRA with Hugging Face's Trainer and PEFT: `train.py --model NAME --data FILE`, and the Trainer's options."""

from dataclasses import dataclass

from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
    set_seed,
)


@dataclass
class Choice:
    """What is trained, and on which lines: JSON with a `text` each."""

    model: str
    data: str


choice, arguments = HfArgumentParser((Choice, TrainingArguments)).parse_args_into_dataclasses()
set_seed(arguments.seed)
tokenizer = AutoTokenizer.from_pretrained(choice.model)
tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
lines = load_dataset("json", data_files=choice.data, split="train")
lines = lines.map(lambda line: tokenizer(line["text"], truncation=True, max_length=2048), remove_columns=["text"])
adapters = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, target_modules="all-linear", task_type="CAUSAL_LM")
trainer = Trainer(
    model=get_peft_model(AutoModelForCausalLM.from_pretrained(choice.model), adapters),
    args=arguments,
    train_dataset=lines,
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
trainer.train(resume_from_checkpoint=arguments.resume_from_checkpoint)
trainer.save_model()
