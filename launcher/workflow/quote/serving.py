"""The story of a serving price: a plan to ranked quotes of a month. Nothing is called and nothing is spent."""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import cast

from launcher.catalog.bedrock import BedrockCatalog
from launcher.catalog.load import Catalog
from launcher.catalog.serving import load_serving
from launcher.catalog.serving_images import load_images
from launcher.catalog.training import load_training
from launcher.model.money import Assumption
from launcher.model.quote import Quote
from launcher.model.request import PlanRequest
from launcher.model.serving import ServedModel, ServingFacts
from launcher.model.workload import ServingWorkload
from launcher.planning.endpoint_checks import quoted_findings
from launcher.planning.serving.explanation import estimate_lines
from launcher.planning.serving.resolve import ServingResolution, model_of, resolve
from launcher.planning.work import Estimator
from launcher.pricing.candidate import Candidate
from launcher.pricing.serving.candidate import ServingCandidate
from launcher.pricing.serving.candidates import serving_candidates
from launcher.pricing.serving.quoting import quote
from launcher.workflow.quote.kept_loads import kept_loads, remarks
from launcher.workflow.quote.price import Priced, PriceOptions, context_for, refuse_errors


@dataclass(frozen=True, kw_only=True)
class ServingPriced(Priced):
    """A serving plan with its candidates, best first, and what their throughput was estimated by."""

    facts: ServingFacts

    @property
    def serving(self) -> ServingResolution:
        """What the plan was resolved to."""
        return cast("ServingResolution", self.resolution)

    @property
    def serve(self) -> ServingWorkload:
        """The workload."""
        return self.serving.choices.serve

    @property
    def model(self) -> ServedModel | None:
        """The model as it is served; None for a closed one."""
        return model_of(self.serve, self.catalog)

    @property
    def params_b(self) -> float | None:
        """Billions of parameters of the model, where they are known."""
        return self.model.params_b if self.model is not None else None

    def family(self, candidate: Candidate) -> str:
        """Whether a candidate is nvidia or neuron; nothing for Bedrock."""
        return super().family(candidate) if candidate.place.instance_type else ""

    def digest(self, rank: int) -> str:
        """The digest of a rank's plan, its layout decided."""
        return self._quote(rank).digest

    def _quote(self, rank: int) -> Quote:
        """The quote by itself."""
        if rank not in self._made:
            candidate = cast("ServingCandidate", self.candidates[rank - 1])
            told = candidate.estimate
            lines: tuple[Assumption, ...] = ()
            if told is not None and self.model is not None:
                facts = self.catalog.instance_types[candidate.place.instance_type]
                lines = estimate_lines(self.serve, self.model, told, facts, catalog=self.catalog, known=self.facts)
            self._made[rank] = quote(candidate, lines)
        return self._made[rank]


def price_serving(
    path: Path, request: PlanRequest, catalog: Catalog, now: datetime, options: PriceOptions
) -> ServingPriced:
    """The candidates of a serving plan.

    Raises:
        ImpossibleError: no candidate is left, with every finding.
    """
    serve = request.workload.serve
    assert serve is not None  # noqa: S101 - the caller has looked
    bedrock = BedrockCatalog(prices_as_of=catalog.prices_as_of)
    estimator = Estimator(request=request, catalog=catalog, facts=load_training())
    kept = kept_loads(options.runs)
    facts = kept.beside(load_serving())
    resolution = resolve(request, serve, catalog, bedrock, facts=facts, estimator=estimator)
    own = remarks(kept, serve, model_of(serve, catalog), resolution.choices.estimates, catalog)
    resolution = replace(resolution, findings=(*resolution.findings, *own))
    refuse_errors(path, resolution.findings)
    context = context_for(request, catalog, now, options)
    judged = partial(quoted_findings, catalog=catalog, images=load_images(), facts=facts)
    candidates = serving_candidates(resolution.choices, context, judged, everything=options.everything)
    return ServingPriced(path=path, context=context, resolution=resolution, candidates=candidates, facts=facts)
