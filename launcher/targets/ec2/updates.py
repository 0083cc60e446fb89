"""Instances of one job: a changed launch template reaches only instances that start later, so any change is allowed."""

from launcher.model.update import Updates

UPDATES = Updates(compare={}, head_type={})
