"""What torchtune.yaml names, tiny: a tokenizer and rows. As a script it makes the base model and fetches the recipe."""

import shutil
from pathlib import Path

import torch


class Tokenizer:
    pad_id = 0


class Rows(torch.utils.data.Dataset):
    def __init__(self, tokenizer):
        del tokenizer

    def __len__(self):
        return 64

    def __getitem__(self, row):
        tokens = [1 + row * place % 31 for place in range(1, 9)]
        return {"tokens": tokens, "labels": tokens}


if __name__ == "__main__":
    import torchtune
    from omegaconf import OmegaConf

    torch.manual_seed(1)
    model = torchtune.config.instantiate(OmegaConf.load("torchtune.yaml").model)
    Path("base").mkdir()
    torch.save(model.state_dict(), "base/model-00001-of-00001.bin")
    recipes = Path(torchtune.__file__).parents[1] / "recipes"
    shutil.copy(recipes / "full_finetune_single_device.py", "full_finetune_single_device.py")
