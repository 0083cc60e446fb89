"""The shipped catalog, without a cache beside it."""
