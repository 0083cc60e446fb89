"""Training jobs have no cluster to update."""

from launcher.model.update import Updates

UPDATES = Updates(compare={}, head_type={})
