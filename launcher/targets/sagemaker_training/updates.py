"""Training jobs have no cluster to update."""

from launcher.model.update import Updates

UPDATES = Updates(judge={}, head_type={})
