"""The stacks of every plan file of the project, synthesised once with cdk.json's context and cdk-nag's rules."""

import json
from dataclasses import dataclass
from pathlib import Path

import aws_cdk as cdk
import pytest
from cdk_nag import AwsSolutionsChecks

from infra.build import build_app
from launcher import plan_file
from launcher.catalog.load import load
from launcher.model.plan import Plan
from launcher.planning.pin import pinned_plan

ROOT = Path(__file__).resolve().parents[2]
PLAN_FILES = {
    path.stem: path for folder in ("examples", "tests/infra/plans") for path in sorted((ROOT / folder).glob("*.yaml"))
}


@dataclass(frozen=True)
class Assembly:
    """What `cdk synth` leaves of a plan."""

    plan: Plan
    folder: Path

    def template(self, part):
        """The template of one stack, {} where the plan has none of that name."""
        path = self.folder / f"slipway-{self.plan.cluster_name}-{part}.template.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def resources(self, part, kind):
        """Logical id and properties of a stack's resources of one type."""
        found = self.template(part).get("Resources", {})
        return {key: each.get("Properties", {}) for key, each in found.items() if each["Type"] == kind}

    def only(self, part, kind):
        """The properties of a stack's one resource of a type."""
        (properties,) = self.resources(part, kind).values()
        return properties

    @property
    def templates(self):
        """Every stack's template, by file name."""
        return {path.name: json.loads(path.read_text()) for path in sorted(self.folder.glob("*.template.json"))}

    @property
    def manifest(self):
        """The stacks as the CLI sees them."""
        artifacts = json.loads((self.folder / "manifest.json").read_text())["artifacts"]
        return {key: each for key, each in artifacts.items() if each["type"] == "aws:cloudformation:stack"}

    @property
    def violations(self):
        """Rule and construct of everything the validators found."""
        reports = json.loads((self.folder / "validation-report.json").read_text())["pluginReports"]
        return [
            (violation["ruleName"], construct["constructPath"])
            for report in reports
            for violation in report["violations"]
            for construct in violation["violatingConstructs"]
        ]


@pytest.fixture(scope="session")
def catalog():
    return load()


@pytest.fixture(scope="session")
def context():
    return json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]


@pytest.fixture(scope="session")
def plan_names():
    """The plan files there are, by the names that `synthesised` takes."""
    return sorted(PLAN_FILES)


@pytest.fixture(scope="session")
def synthesised(tmp_path_factory, catalog, context):
    """Synthesise a plan, the text of a plan file, or a plan file by its name; each once."""
    done = {}

    def synthesise(source):
        if isinstance(source, Plan):
            plan = source
        elif source in PLAN_FILES:
            plan = pinned_plan(plan_file.load(PLAN_FILES[source]), catalog)
        else:
            plan = pinned_plan(plan_file.loads(source), catalog)
        if plan.digest not in done:
            folder = tmp_path_factory.mktemp(plan.name)
            app = build_app(plan, context=context, outdir=folder)
            cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
            try:
                app.synth()
            except RuntimeError as failed:
                # The rules found something: which, and whether it is accepted, is test_rules.py's to say.
                assert str(failed).startswith("ValidationFailed")  # noqa: PT017
            done[plan.digest] = Assembly(plan=plan, folder=folder)
        return done[plan.digest]

    return synthesise


@pytest.fixture(params=sorted(PLAN_FILES))
def assembly(request, synthesised):
    """Every plan file of the project in turn."""
    return synthesised(request.param)
