"""Training jobs have no cluster that could be changed."""

from launcher.model.update import Updates

UPDATES = Updates(judge={}, head_type={})
