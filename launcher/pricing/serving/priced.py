"""The candidates of a serving plan, and their quotes."""

from launcher.model.money import Assumption
from launcher.model.quote import Quote
from launcher.model.record import record
from launcher.model.serving import ServedModel, ServingChoices, ServingFacts
from launcher.model.workload import ServingWorkload
from launcher.planning.serving.explanation import estimate_lines
from launcher.planning.serving.resolve import model_of
from launcher.pricing.priced import PricedRequest
from launcher.pricing.serving.candidate import ServingCandidate
from launcher.pricing.serving.quoting import quote


@record(slots=False)
class ServingPriced(PricedRequest[ServingCandidate]):
    """A serving plan with its candidates, best first, and what their throughput was estimated by.

    `choices` is what can carry the plan; `closed` says that only Bedrock has the model.
    """

    choices: ServingChoices
    closed: bool
    facts: ServingFacts

    @property
    def serve(self) -> ServingWorkload:
        """The workload."""
        return self.choices.serve

    @property
    def model(self) -> ServedModel | None:
        """The model as it is served; None for a closed one."""
        return model_of(self.serve, self.catalog)

    @property
    def params_b(self) -> float | None:
        """Billions of parameters of the model, where they are known."""
        return self.model.params_b if self.model is not None else None

    def _make(self, rank: int) -> Quote:
        candidate = self.candidates[rank - 1]
        told = candidate.estimate
        lines: tuple[Assumption, ...] = ()
        if told is not None and self.model is not None:
            facts = self.catalog.instance_types[candidate.place.instance_type]
            lines = estimate_lines(self.serve, self.model, told, facts, catalog=self.catalog, known=self.facts)
        return quote(candidate, lines)
