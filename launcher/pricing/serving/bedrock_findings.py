"""Remarks of a quote on Bedrock: its regions and profiles, latency, batches, and prompt caches."""

from collections.abc import Iterator

from launcher.model.bedrock import BedrockTerms
from launcher.model.enums import BedrockMode
from launcher.model.finding import Finding, info, warning
from launcher.model.money import Assumption
from launcher.model.workload import ServingWorkload
from launcher.pricing.serving.token_rates import CACHE_S, expired_share

PATH = "workload.serve"
CACHE = "prompt cache"


def bedrock_findings(terms: BedrockTerms, serve: ServingWorkload, region: str) -> Iterator[Finding]:
    """The findings on one Bedrock candidate."""
    if terms.mode is BedrockMode.CUSTOM_IMPORT:
        message = f"not checked whether {region} imports models of {terms.model_id}'s architecture"
        yield warning("bedrock-region", "target.region", message, "the Bedrock console lists what can be imported")
    else:
        yield _region(terms, region)
        yield from _profile(terms)
    if serve.max_ttft_ms is not None or serve.max_tpot_ms is not None:
        message = "Bedrock publishes no latency: the limits were not compared with it"
        yield warning("bedrock-latency", PATH, message, "measure it before you rely on it")
    if terms.mode is BedrockMode.BATCH:
        yield info("bedrock-batch", f"{PATH}.bedrock.mode", "answers of a batch come within 24 hours, not one by one")
    if serve.model_uri is not None and terms.mode is not BedrockMode.CUSTOM_IMPORT:
        message = "Bedrock serves the published weights, not those of model_uri"
        yield warning("other-weights", f"{PATH}.model_uri", message)
    by_the_token = terms.input_usd_per_million is not None
    if serve.cached_input_fraction and by_the_token and terms.cached_usd_per_million is None:
        batch = "in a batch " if terms.mode is BedrockMode.BATCH else ""
        message = (
            f"no price of {terms.inference_id} from a prompt cache {batch}is known: all input is at the full price"
        )
        yield warning("no-cache-price", f"{PATH}.cached_input_fraction", message)


def _region(terms: BedrockTerms, region: str) -> Finding:
    same = f" has the weights of {terms.same_weights};" if terms.same_weights else ":"
    message = f"{terms.model_id}{same} not checked whether {region} has it"
    if not terms.region_seen:
        message = f"{terms.model_id}{same} no price in the catalog names Bedrock in {region}"
    return warning("bedrock-region", "target.region", message, "the Bedrock console lists the models of a region")


def _profile(terms: BedrockTerms) -> Iterator[Finding]:
    path = f"{PATH}.bedrock.profile"
    if terms.profile:
        message = f"requests through {terms.inference_id} may be answered in any region of the profile {terms.profile}"
        yield info("bedrock-profile", path, message, "none keeps them in the region, where the model is offered so")
    if terms.cheaper:
        yield info("cheaper-profile", path, f"the profile {terms.cheaper} is cheaper", "it answers in more regions")


def cache_lines(serve: ServingWorkload, terms: BedrockTerms | None) -> tuple[Assumption, ...]:
    """The effect of a prompt cache on a Bedrock month (`terms`), or a note that instances do not count it."""
    if not serve.cached_input_fraction:
        return ()
    share = f"{serve.cached_input_fraction:.0%} of the input"
    if terms is None:
        source = "every prompt is processed in full: a server's prefix cache makes instances cheaper than this"
        return (Assumption(name=CACHE, value="not counted", unit="", source=source),)
    if terms.cached_usd_per_million is None:
        return ()
    unit = f"is shared; {expired_share(serve):.1%} of the requests come after it expired and write it again"
    source = f"workload.serve.cached_input_fraction; a cache holds for {CACHE_S:g} s after its last use"
    return (Assumption(name=CACHE, value=share, unit=unit, source=source),)
