"""Archives of work folders."""

import tarfile


def archive_of(folder, path):
    with tarfile.open(path, "w:gz") as archive:
        for each in sorted(folder.rglob("*")):
            archive.add(each, each.relative_to(folder), recursive=False)
    return path
