"""All candidates of a plan, for training and for serving: `slipway plan`."""

from launcher.answers import plan_screen
from launcher.pricing.priced import Priced


def page(priced: Priced, width: int, *, everything: bool, called: bool = False, verbose: bool = False) -> list[str]:
    """The page for a terminal of `width` columns: the first screen, or with every row or note.

    `called`: prices were just read from AWS.
    """
    if priced.request.workload.serve is not None:
        # Loaded for serving alone: a plan for training pays nothing for it.
        from launcher.answers import serving_screen, serving_table

        if everything or verbose:
            return serving_table.page(priced, width, everything=everything, called=called)
        return serving_screen.page(priced, width)
    if everything or verbose:
        from launcher.answers import plan_table

        return plan_table.page(priced, width, everything=everything, called=called)
    return plan_screen.page(priced, width, called=called)
