"""The page of `slipway plan`, for training and for serving."""

from launcher.cli import plan_table
from launcher.pricing.priced import Priced


def page(priced: Priced, width: int, *, everything: bool, called: bool = False) -> list[str]:
    """The whole page for a terminal of `width` columns; `called` says that prices were just read from AWS."""
    if priced.request.workload.serve is None:
        return plan_table.page(priced, width, everything=everything, called=called)
    # Loaded for serving alone: a plan for training pays nothing for it.
    from launcher.cli import serving_table

    return serving_table.page(priced, width, everything=everything, called=called)
