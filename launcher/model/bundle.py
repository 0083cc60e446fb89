"""Rendered text: files that can be read before anything is executed."""

from dataclasses import replace

from launcher.model.record import record


@record
class RenderedFile:
    """One file: its path in the bundle (POSIX, relative), its text, and whether it is executable."""

    path: str
    text: str
    executable: bool = False


@record
class Bundle:
    """All files of one plan, in display order; `digest` is the plan's digest."""

    digest: str
    files: tuple[RenderedFile, ...]

    def file(self, path: str) -> RenderedFile:
        """The file at `path`."""
        for rendered in self.files:
            if rendered.path == path:
                return rendered
        raise KeyError(path)

    def with_text(self, path: str, text: str) -> "Bundle":
        """The same files with another text at `path`."""
        return replace(
            self, files=tuple(replace(file, text=text) if file.path == path else file for file in self.files)
        )
