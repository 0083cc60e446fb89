"""Checks of a training job's amount of work: tokens, examples, tokens per parameter, or hours; exactly one of them."""

from collections.abc import Iterator

from launcher.model.finding import Finding, error, info
from launcher.model.workload import TrainingWorkload

MAX_HOURS = 1e6
MAX_TOKENS_B = 1e9
"""A million trillion tokens, ten thousand times the largest published run."""
AMOUNTS = "tokens_b; examples, tokens_per_example and epochs; tokens_per_parameter; or hours"


def amount_findings(train: TrainingWorkload, params_b: float | None, path: str) -> Iterator[Finding]:
    """Findings unless the plan gives the amount of work in exactly one way, within plausible limits.

    Args:
        train: the workload.
        params_b: billions of parameters of the model, None if unknown.
        path: of the workload in the plan file.
    """
    given = [
        key for key in ("tokens_b", "examples", "tokens_per_parameter", "hours") if getattr(train, key) is not None
    ]
    if {"tokens_b", "hours"} == set(given):
        yield error("tokens-and-hours", f"{path}.hours", "tokens_b and hours are both given", "keep one")
    elif len(given) > 1:
        message = f"{' and '.join(given)} are given: each is the amount of work"
        yield error("two-amounts", f"{path}.{given[-1]}", message, "keep one")
    if not given:
        message = "the plan gives no amount of work: neither tokens_b nor hours is given"
        yield error("no-amount", path, message, f"give {AMOUNTS}")
    yield from _examples(train, path)
    if train.hours is not None and train.hours > MAX_HOURS:
        yield error("too-long", f"{path}.hours", f"must be at most {MAX_HOURS:,.0f}, got {train.hours:,.12g}")
    amount = train.amount_b(params_b)
    if amount is not None and amount > MAX_TOKENS_B:
        key = given[0]
        message = f"the job must have at most {MAX_TOKENS_B:,.0f} B tokens, got {amount:,.12g}"
        if key == "tokens_b":
            message = f"must be at most {MAX_TOKENS_B:,.0f}, got {amount:,.12g}"
        yield error("too-long", f"{path}.{key}", message)


def _examples(train: TrainingWorkload, path: str) -> Iterator[Finding]:
    """Findings on examples, and on the keys that say something about examples only."""
    rate = train.throughput_samples_per_s
    if train.examples is None:
        keys = ("tokens_per_example", "epochs", "throughput_samples_per_s")
        lonely = [key for key in keys if getattr(train, key) is not None]
        if lonely:
            message = f"{' and '.join(lonely)} without examples: the number of examples of one epoch is needed"
            yield error("no-examples", f"{path}.{lonely[0]}", message, f"give {path}.examples, or drop it")
    elif train.tokens_per_example is None and rate is None:
        message = "examples are given, but not what one takes"
        hint = (
            "tokens_per_example (its mean tokens) for a model that reads text; throughput_samples_per_s, as slipway"
            " spike FILE measures it, for other models"
        )
        yield error("examples-alone", f"{path}.examples", message, hint)
    elif train.tokens_per_example is not None and rate is not None:
        message = "tokens_per_example and throughput_samples_per_s are both given: either tokens or examples are timed"
        hint = "keep one; a measured rate of tokens is throughput_tokens_per_s"
        yield error("two-rates", f"{path}.throughput_samples_per_s", message, hint)
    elif train.tokens_per_example is not None and train.tokens_per_example > train.sequence_length:
        message = (
            f"an example has {train.tokens_per_example:g} tokens on average, a sequence"
            f" {train.sequence_length:,}: a trainer that cuts examples trains on fewer tokens"
        )
        yield info("examples-above-sequence", f"{path}.tokens_per_example", message, "or raise sequence_length")
    if rate is not None and train.throughput_tokens_per_s is not None:
        message = "throughput_tokens_per_s and throughput_samples_per_s are both given"
        yield error("two-rates", f"{path}.throughput_samples_per_s", message, "keep one")
