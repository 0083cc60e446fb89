"""Each benchmark writes its own section of docs/accuracy.md and does not change the others.

The section `tried` is written manually, after experiments on the fit.
"""

from pathlib import Path

ORDER = ("training", "spot", "serving", "tried")


def _mark(name: str) -> str:
    return f"<!-- section: {name} -->"


def replace_section(path: Path, name: str, text: str) -> None:
    """Write a section of a report, in the order of ORDER; text before the first mark counts as the first section."""
    found = sections(path.read_text(encoding="utf-8")) if path.exists() else {}
    found[name] = text
    path.parent.mkdir(exist_ok=True)
    parts = [f"{_mark(section)}\n{found[section].strip()}\n" for section in ORDER if section in found]
    path.write_text("\n".join(parts), encoding="utf-8")


def sections(text: str) -> dict[str, str]:
    r"""The sections of a report by name.

    >>> sections("# A\n<!-- section: serving -->\n# B\n")
    {'training': '# A', 'serving': '# B'}
    """
    found: dict[str, str] = {}
    current = ORDER[0]
    for line in text.splitlines():
        named = next((section for section in ORDER if line == _mark(section)), None)
        if named is not None:
            current = named
        else:
            found[current] = f"{found.get(current, '')}{line}\n"
    return {name: body.strip() for name, body in found.items() if body.strip()}
