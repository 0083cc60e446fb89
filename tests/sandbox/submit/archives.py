"""Archives of work folders."""

import tarfile


def archive_of(folder, path):
    with tarfile.open(path, "w:gz") as archive:
        for member in sorted(folder.rglob("*")):
            archive.add(member, member.relative_to(folder), recursive=False)
    return path
