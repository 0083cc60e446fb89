"""What a checkpoint says about itself: its step, and the other checkpoints that its trainer needs beside it.

A trainer that keeps the best model apart names it in the state that it saves, and looks for it after a resume or at its
end. Those files are one set with the checkpoint: stored with it, and put back with it.

`hf`         trainer_state.json: global_step, best_model_checkpoint (transformers 5.23.0 trainer_callback.py:35-140)
`lightning`  the file of torch.save, or meta.pt in a folder: global_step, and of each ModelCheckpoint in `callbacks`
             best_model_path, last_model_path and best_k_models (Lightning 2.6.6 callbacks/model_checkpoint.py:520-545)
`nemo`       the same of weights/common.pt, in which Megatron Core saves what is not sharded (NeMo of 2025, 00b7275c,
             lightning/io/pl.py save_checkpoint; dist_checkpointing/strategies/common.py). NeMo forgets what it finds no
             longer (lightning/pytorch/callbacks/model_checkpoint.py _remove_invalid_entries_from_topk)

Slipway reads pickles as data, and executes nothing in them (`dcp_metadata`).
"""

import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from launcher.agent import safe_json
from launcher.agent.checkpoint.unsent import CHECKPOINTS_NAME
from launcher.agent.dcp_metadata import pickled_value
from launcher.agent.errors import ManifestError

HF, LIGHTNING, NEMO = "hf", "lightning", "nemo"
_FOLDERS_SUFFIX = ".ckpt"
"""NeMo names its folders in its state as Lightning names files."""
_MOST_BYTES = 64 * 1024 * 1024
MOST_BEST = 10
"""If a trainer keeps more models than this, only the best one is in the set."""


def saved_step(state: str, path: Path) -> int | None:
    """The step in a checkpoint whose name has none; None if the file is unfinished or unreadable."""
    step = _read(state, path).get("global_step")
    return step if type(step) is int and 0 <= step < 10**18 else None


def has_end(path: Path) -> bool:
    """Whether a checkpoint that shows its step has what its trainer writes last: DeepSpeed's folders have `latest`."""
    return not path.is_dir() or (path / "meta.pt").is_file() or (path / "latest").is_file()


def companions(state: str, folder: Path, name: str) -> tuple[str, ...]:
    """The other entries of the checkpoint folder that are one set with the checkpoint `name`; they may be gone."""
    if not state:
        return ()
    paths = (_best_of_transformers if state == HF else _best_of_lightning)(_read(state, folder / name))
    known = (path.removesuffix(_FOLDERS_SUFFIX) if state == NEMO else path for path in paths if isinstance(path, str))
    names = dict.fromkeys(_name_in(folder, PurePath(path)) for path in known if PurePath(path).name)
    return tuple(other for other in names if other != name)


def _name_in(folder: Path, path: PurePath) -> str:
    """The name in the checkpoint folder of a path that a trainer saved, perhaps on another node or in another place.

    The longest end of the path that exists counts: a trainer may keep its best models in a folder of their own.
    """
    names = [PurePath(*path.parts[start:]) for start in range(1 if path.is_absolute() else 0, len(path.parts))]
    existing = (name for name in names if ".." not in name.parts and os.path.lexists(folder / name))
    below = [name for name, above in zip(names[1:], names, strict=False) if above.parts[0] == CHECKPOINTS_NAME]
    return str(next(existing, below[-1] if below else names[-1]))


def _best_of_transformers(document: Mapping[str, Any]) -> Iterator[Any]:
    yield document.get("best_model_checkpoint")


def _best_of_lightning(document: Mapping[str, Any]) -> Iterator[Any]:
    callbacks = document.get("callbacks")
    for callback in callbacks.values() if isinstance(callbacks, dict) else ():
        if not isinstance(callback, dict):
            continue
        yield callback.get("best_model_path")
        best = callback.get("best_k_models")
        if isinstance(best, dict) and len(best) <= MOST_BEST:
            yield from best


def _read(state: str, path: Path) -> Mapping[str, Any]:
    try:
        value = (
            safe_json.load(path / "trainer_state.json") if state == HF else _load_torch_file(_torch_file(state, path))
        )
    except (OSError, ValueError, ManifestError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return {}
    return value if isinstance(value, dict) else {}


def _torch_file(state: str, path: Path) -> Path:
    if state == NEMO:
        return path / "weights" / "common.pt"
    if not path.is_dir():
        return path
    # Lightning 2.6.6 strategies/deepspeed.py save_checkpoint: its state is DeepSpeed's client_state under the tag
    # "checkpoint", in the file of every rank with ZeRO 3.
    states = sorted((path / "checkpoint").glob("*mp_rank_00_model_states.pt"))
    return states[0] if states else path / "meta.pt"


def _load_torch_file(path: Path) -> Any:
    """The object that torch.save wrote; tensors are placeholders. Its archive has a directory only once it is whole."""
    with zipfile.ZipFile(path) as archive:
        inside = next((item for item in archive.infolist() if item.filename.endswith("/data.pkl")), None)
        if inside is None or inside.file_size > _MOST_BYTES:
            return None
        return pickled_value(archive.read(inside))
