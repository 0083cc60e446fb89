"""Stand-ins of PyTorch's metadata classes."""

from pathlib import Path


class Info:
    def __init__(self, relative_path, offset, length):
        self.relative_path, self.offset, self.length = relative_path, offset, length


class Metadata:
    def __init__(self, storage_data):
        self.storage_data = storage_data
        self.planner_data = {"a": Path("x"), "b": {1, 2}}
