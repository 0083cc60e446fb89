"""A refusal as text for the person who runs the app."""

from launcher.model.errors import SlipwayError
from launcher.model.visible_text import output_line


def refusal_text(refusal: SlipwayError) -> str:
    """The text of a refusal for the user: the message, every finding with its path and fix, and the hint."""
    lines = f"error: {refusal.message}".split("\n")
    for finding in refusal.findings:
        lines.append(f"  {finding.path}: {finding.message}" if finding.path else f"  {finding.message}")
        if finding.hint:
            lines.append(f"    {finding.hint}")
    if refusal.hint:
        lines.append(f"  {refusal.hint}")
    return "\n".join(output_line(line) for line in lines)
