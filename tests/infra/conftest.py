"""The stacks of every example that is one plan, synthesised once with cdk.json's context and cdk-nag's rules.

aws-cdk-lib takes a second of processor time to load, in Python and in Node: the tests of this folder import it, and
what needs it, when they run, for every worker collects them and one runs them.
"""

import copy
import json
import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from launcher import plan_file
from launcher.model.plan import Plan
from launcher.planning.pin import pinned_plan
from launcher.records.quote_document import quote_document
from launcher.rendering.names import stack_name
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.infra.guard_account import NOW as LOOKED_AT
from tests.infra.guard_account import SlurmAccount, account_of, client
from tests.infra.guard_modules import guard_module
from tests.plans import NOW, ROOT

OPEN = {"llama31-8b-sft"}
"""Examples with an open choice, which the launcher makes."""
PLAN_FILES = {path.stem: path for path in sorted((ROOT / "examples").glob("*.yaml")) if path.stem not in OPEN}

EKS_FILES = {path.stem: path for path in sorted((ROOT / "examples" / "eks").glob("*.yaml"))}
HYPERPOD_EKS_FILES = {path.stem: path for path in sorted((ROOT / "examples" / "hyperpod-eks").glob("*.yaml"))}
TRAINING_JOB_FILES = {path.stem: path for path in sorted((ROOT / "examples" / "sagemaker").glob("*.yaml"))}
HYPERPOD_FILES = {path.stem: path for path in sorted((ROOT / "examples" / "hyperpod").glob("*.yaml"))}
EC2_FILES = {path.stem: path for path in sorted((ROOT / "examples" / "ec2").glob("*.yaml"))}
PCS_FILES = {path.stem: path for path in sorted((ROOT / "examples" / "pcs").glob("*.yaml"))}
FILES = {
    "parallelcluster": PLAN_FILES,
    "eks": EKS_FILES,
    "hyperpod-slurm": HYPERPOD_FILES,
    "hyperpod-eks": HYPERPOD_EKS_FILES,
    "pcs": PCS_FILES,
    "ec2": EC2_FILES,
    "sagemaker-training": TRAINING_JOB_FILES,
}
"""The examples of each target by name."""


@dataclass(frozen=True)
class Assembly:
    """The output of `cdk synth` for a plan."""

    plan: Plan
    folder: Path
    ruled: bool  # cdk-nag's rules have read it

    def template(self, part):
        """The template of one stack; {} if the plan has no stack of that name."""
        path = self.folder / f"{stack_name(self.plan, part)}.template.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def resources(self, part, kind):
        """Logical id and properties of a stack's resources of one type."""
        found = self.template(part).get("Resources", {})
        return {key: resource.get("Properties", {}) for key, resource in found.items() if resource["Type"] == kind}

    def only(self, part, kind):
        """The properties of a stack's only resource of a type."""
        (properties,) = self.resources(part, kind).values()
        return properties

    @property
    def templates(self):
        """Every stack's template, by file name."""
        return {path.name: json.loads(path.read_text()) for path in sorted(self.folder.glob("*.template.json"))}

    @property
    def manifest(self):
        """The stacks as the CLI reads them."""
        artifacts = json.loads((self.folder / "manifest.json").read_text())["artifacts"]
        return {key: artifact for key, artifact in artifacts.items() if artifact["type"] == "aws:cloudformation:stack"}

    @property
    def violations(self):
        """Rule and construct of all findings of the validators."""
        assert self.ruled, "synthesised without cdk-nag's rules"
        reports = json.loads((self.folder / "validation-report.json").read_text())["pluginReports"]
        return [
            (violation["ruleName"], construct["constructPath"])
            for report in reports
            for violation in report["violations"]
            for construct in violation["violatingConstructs"]
        ]


@pytest.fixture(scope="session")
def context():
    return json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]


@pytest.fixture(scope="session")
def plan_names():
    """The existing plan files, by the names that `synthesised` accepts."""
    return sorted(PLAN_FILES)


@pytest.fixture(scope="session")
def plan_at(catalog):
    """The plan of a plan file by its path."""
    return lambda path: pinned_plan(plan_file.load(path), catalog)


@pytest.fixture(scope="session")
def plan_named(plan_at):
    """The plan of a plan file by its name."""
    return lambda name: plan_at(PLAN_FILES[name])


@pytest.fixture(scope="session")
def synthesised(tmp_path_factory, plan_named, catalog, context):
    """Synthesise a plan, the text of a plan file, or a plan file by its name, with further context; each once.

    cdk-nag's rules take a third of a synthesis: they read plans without further context, and what shall be `ruled`.
    """
    import aws_cdk as cdk
    from cdk_nag import AwsSolutionsChecks

    from infra.build import build_app

    done = {}

    def synthesise(source, *, ruled=None, **more):
        if isinstance(source, Plan):
            plan = source
        elif source in PLAN_FILES:
            plan = plan_named(source)
        else:
            plan = pinned_plan(plan_file.loads(source), catalog)
        if ruled is None:
            ruled = not more and (isinstance(source, Plan) or source in PLAN_FILES)
        key = (plan.digest, ruled, *more.items())
        if key not in done:
            folder = tmp_path_factory.mktemp(plan.name)
            built = build_app(plan, context={**context, **more}, outdir=folder)
            if ruled:
                cdk.Validations.of(built).add_plugins(AwsSolutionsChecks(built))
            try:
                built.synth()
            except RuntimeError as failed:
                # The rules found something: which, and whether it is accepted, is test_rules.py's to say.
                assert str(failed).startswith("ValidationFailed")  # noqa: PT017
            done[key] = Assembly(plan=plan, folder=folder, ruled=ruled)
        return done[key]

    return synthesise


@pytest.fixture(scope="session")
def both_sides(synthesised, catalog):
    """For a plan file: its best candidate's quote, the templates as the launcher deploys them, the quote's JSON."""
    done = {}

    def sides(path):
        if path not in done:
            found = price(path, NOW, PriceOptions()).quote(1)
            rate = {} if found.usd_per_hour is None else {"usd_per_hour": f"{found.usd_per_hour:f}"}
            quote_json = json.loads(json.dumps(quote_document(found, 1, catalog.instance_types)))
            done[path] = found, synthesised(found.plan, **rate).templates, quote_json
        found, templates, quote_json = done[path]
        return found, copy.deepcopy(templates), copy.deepcopy(quote_json)

    return sides


@pytest.fixture(params=sorted(PLAN_FILES))
def assembly(request, synthesised):
    """Every plan file of the project in turn."""
    return synthesised(request.param)


@pytest.fixture(params=[(kind, name) for kind, files in FILES.items() for name in sorted(files)], ids="-".join)
def example_of_kind(request, synthesised, plan_at):
    """The kind and the stacks of every example in turn."""
    kind, name = request.param
    return kind, synthesised(plan_at(FILES[kind][name]))


@pytest.fixture
def named(request, synthesised, plan_at):
    """The stacks of an example of the test module's KIND by its name."""
    return lambda name, **more: synthesised(plan_at(FILES[request.module.KIND][name]), **more)


def pytest_generate_tests(metafunc):
    if "example" in metafunc.fixturenames and hasattr(metafunc.module, "KIND"):
        metafunc.parametrize("example", sorted(FILES[metafunc.module.KIND]), indirect=True)


@pytest.fixture
def example(request, named):
    """The stacks of every example of the test module's KIND in turn."""
    return named(request.param)


class AppRun(NamedTuple):
    """A run of the app: its exit code, its standard error, the folder of its assembly."""

    code: int
    err: str
    out: Path


@pytest.fixture
def run_app(tmp_path, context, capsys):
    """Run the app in this process, with a plan in its context; test_app.py starts it once as a program."""
    import aws_cdk as cdk

    from infra import app

    def run(plan, account=None, **more):
        values = more if plan is None else {**context, "plan": str(plan), **more}
        out = tmp_path / "cdk.out"
        code = app.synthesise(cdk.App(auto_synth=False, context=values, outdir=str(out)), account)
        return AppRun(code, capsys.readouterr().err, out)

    return run


@pytest.fixture
def golden_stack(golden):
    """Compare a stack's template with its golden file; stores and networks are stored as diffs to one of them."""

    def compare(name, part, template):
        text = json.dumps({key: template[key] for key in ("Resources", "Outputs")}, indent=2, sort_keys=True)
        like = None if part == "training" else f"infra/p5-spot/{part}.json"
        # Digests of plans and contents of assets.
        golden(f"infra/{name}/{part}.json", re.sub(r"\b[0-9a-f]{64}\b", "<sha256>", text) + "\n", like)

    return compare


@pytest.fixture
def p5en_spot(named):
    """The example of that name of the test module's KIND, at a price that was agreed."""
    return named("p5en-spot", usd_per_hour="151.91")


@pytest.fixture
def p5(synthesised):
    return synthesised("p5-spot")


# ---------------------------------------------------------------------------------------------------- the guards


@pytest.fixture(scope="module")
def module(request):
    """The guard that a test module names in GUARD, as Lambda loads it; by default ParallelCluster's."""
    with guard_module(getattr(request.module, "GUARD", "guard")) as loaded:
        yield loaded


@pytest.fixture
def aws(request, monkeypatch):
    """The account in which the guard runs, of the test module's kind."""
    with account_of(monkeypatch, getattr(request.module, "ACCOUNT_KIND", SlurmAccount)) as account:
        yield account


@pytest.fixture
def guard_of(module, aws):
    """ParallelCluster's guard at a moment, in a cluster deployed `age_h` hours ago."""

    def make(*, age_h=1.0, now=LOOKED_AT, **variables):
        variables = {"PARALLELCLUSTER": "slipway-tiny", "IDLE_MINUTES": "60", **variables}
        guard = module.Guard(aws.settings(module, **variables), client, now)
        guard.deployed_at = lambda: now - timedelta(hours=age_h)
        return guard

    return make
