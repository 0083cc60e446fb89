"""The shipped catalog, as every data test sees it."""
