"""Test modules with pytest's asserts, compiled once for all workers.

Workers collect the same modules at the same time: in a new clone each of them would compile all modules. pytest has no
public interface for it; pyproject.toml keeps the version below 9.2.
"""

import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

TESTS = Path(__file__).resolve().parent


def compile_share(config: pytest.Config, number: int, count: int) -> None:
    """Write the bytecode of every `count`th test module from the one with this number, where it is missing or old."""
    if sys.dont_write_bytecode:
        return
    state = config.stash[rewrite.assertstate_key]
    for path in sorted(TESTS.rglob("test_*.py"))[number::count]:
        folder = rewrite.get_cache_dir(path)
        compiled = folder / f"{path.stem}{rewrite.PYC_TAIL}"
        if rewrite._read_pyc(path, compiled) is None and rewrite.try_makedirs(folder):
            try:
                status, code = rewrite._rewrite_test(path, config)
            except SyntaxError:
                continue  # its collection reports it
            rewrite._write_pyc(state, code, status, compiled)
