"""The first words of a plan's pages: the request in a line, whether families are compared, why nothing has a price."""

from launcher.model.enums import Method
from launcher.model.request import PlanRequest
from launcher.model.units import number_of
from launcher.model.workload import TrainingWorkload
from launcher.planning.work import cluster_hours
from launcher.pricing.priced import NVIDIA, Priced

UNPRICED = "No candidate has a price: nothing can be launched."
METHODS = {
    Method.PRETRAIN: "pretraining",
    Method.FULL: "full fine-tuning",
    Method.SFT: "full fine-tuning",
    Method.LORA: "LoRA",
    Method.QLORA: "QLoRA",
}
"""Training methods in words; the others are known by their abbreviation."""


def headline(priced: Priced) -> str:
    """The request in one line."""
    return headline_of(priced.request, priced.params_b)


def headline_of(request: PlanRequest, params_b: float | None) -> str:
    """The headline of a request; `params_b` are its model's billions of parameters, if known."""
    train = request.workload.train
    if train is None:
        return f"{request.name} · a cluster without a job, priced for {cluster_hours(request):g} h"
    model = train.model if isinstance(train.model, str) else f"a model of {params_b:.4g} B" if params_b else "a model"
    amount = _amount(train, params_b)
    job = f"{model}, {METHODS.get(train.method, train.method.value.upper())}" if train.model else "a job"
    return f"{request.name} · {job}, {amount} · {number_of(train.runs, 'run')}"


def _amount(train: TrainingWorkload, params_b: float | None) -> str:
    """The amount of work in the user's units, with the tokens that follow."""
    if train.by_samples:
        return f"{train.seen_examples:,.12g} examples at {train.throughput_samples_per_s:,.6g} a second and node"
    if not train.by_tokens:
        return f"{train.hours:g} h of progress"
    tokens = train.amount_b(params_b)
    total = "" if tokens is None else f"{tokens:,.12g} B tokens" if train.tokens_b else f"{tokens:,.4g} B tokens"
    if train.tokens_per_parameter is not None:
        return f"{total} ({train.tokens_per_parameter:g} per parameter)".lstrip()
    if train.tokens_per_example is not None:
        passes = train.epochs or 1
        epochs = number_of(passes, "epoch")
        return f"{total} ({train.examples:,} examples × {train.tokens_per_example:,g} × {epochs})"
    return total


def compares_families(priced: Priced) -> bool:
    """Whether a plan's amount of work allows a comparison with other instance families."""
    train = priced.request.workload.train
    return train is not None and train.by_tokens and priced.cheapest_of(NVIDIA) is not None


def unpriced_answer(priced: Priced) -> str:
    """That nothing can be launched, with the reason of the first candidate; the table has the others."""
    reasons = [candidate.refusals[0].message for candidate in priced.candidates[:1] if candidate.refusals]
    reason = reasons[0] if reasons else priced.quote(1).no_price_reason
    return f"{UNPRICED[:-1]}{f': {reason}' if reason else ''}."
