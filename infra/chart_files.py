"""HyperPod's chart and the layer with helm in the assembly of a synthesis by hand."""

from pathlib import Path

from launcher.catalog.hyperpod_chart import chart_pins
from launcher.cdk.chart import assembly_files, files_in


def add_chart(out: Path, folder: Path, command: str) -> None:
    """Add the pinned files of a folder to an assembly.

    Args:
        out: the folder of the assembly, or of the stage's part of it.
        folder: the folder with the pinned files.
        command: the deployment, which a refusal repeats.

    Raises:
        MissingFilesError: the folder lacks a file.
        ImpossibleError: a file differs from the pinned one.
    """
    pins = chart_pins()
    for name, data in assembly_files(pins, files_in(pins, folder, command)).items():
        (out / name).write_bytes(data)
