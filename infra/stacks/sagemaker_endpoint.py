"""A SageMaker endpoint with its role, alarms, scaling, guardrails, and the policy of its callers."""

from collections.abc import Mapping

from aws_cdk import Aws, RemovalPolicy
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.parts import endpoint_alarms
from infra.parts.endpoint import SageMakerEndpoint
from infra.parts.endpoint_alarms import EndpointAlarms
from infra.parts.endpoint_dashboard import endpoint_dashboard
from infra.parts.endpoint_role import EndpointRole, invoke_policy
from infra.parts.endpoint_scaling import EndpointScaling
from infra.parts.endpoint_store import INPUT, OUTPUT, EndpointStore
from infra.parts.guardrails import Guardrails, guardrail_text
from infra.parts.limits import Limits
from infra.parts.outputs import add_output
from infra.stacks.plan_stack import PlanStack
from launcher.catalog.load import Catalog
from launcher.catalog.serving import load_serving
from launcher.catalog.serving_images import load_images
from launcher.model.endpoint import Endpoint, EndpointMode, keeps_requests
from launcher.model.enums import Level, ServingTask
from launcher.model.finding import Finding
from launcher.model.idle import idle_minutes
from launcher.model.plan import Plan
from launcher.model.sizing import LOG_RETENTION_DAYS
from launcher.planning.endpoint import ServingDeployment
from launcher.planning.endpoint_checks import endpoint_findings
from launcher.rendering.cluster import notify_findings


def findings(plan: Plan, catalog: Catalog) -> tuple[Finding, ...]:
    """Every reason why a plan's endpoint cannot be built; empty if it can. Its network is SageMaker's."""
    served = ServingDeployment(plan=plan, catalog=catalog, images=load_images())
    problems = endpoint_findings(served, load_serving())
    return (*(finding for finding in problems if finding.level is Level.ERROR), *notify_findings(plan))


def build(
    scope: Construct, *, plan: Plan, catalog: Catalog, account: str | None, tags: Mapping[str, str], limits: Limits
) -> None:
    """Add a plan's endpoint to an app or another construct."""
    served = ServingDeployment(plan=plan, catalog=catalog, images=load_images())
    ServingStack(scope, served=served, account=account, tags=tags, limits=limits)


class ServingStack(PlanStack):
    """An endpoint, and the resources that belong to it alone.

    Attributes:
        serving: the endpoint.
        endpoint_name: its name.
        callers: the managed policy of those who call it.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        served: ServingDeployment,
        account: str | None,
        tags: Mapping[str, str],
        limits: Limits,
    ) -> None:
        """Create a plan's endpoint."""
        plan, serve, endpoint = served.plan, served.serve, served.endpoint
        about = f"Slipway: endpoint {plan.cluster_name}"
        super().__init__(scope, "serving", plan=plan, account=account, tags=tags, description=about)
        key = plan.request.storage.kms_key_arn
        keeps = keeps_requests(serve, endpoint.mode)
        store = EndpointStore(self, "Store", kms_key_arn=key) if keeps else None
        idle = idle_minutes(plan.request)
        alarms = EndpointAlarms(self, "Alarms", endpoint=endpoint, streaming=serve.streaming, idle_minutes=idle)
        log = self._log(endpoint)
        role = EndpointRole(
            self,
            "Containers",
            endpoint=endpoint,
            log=log,
            rollback=alarms.rollback,
            store=store,
            kms_key_arn=key,
            named_arn=plan.request.security.roles.nodes,
        )
        self.serving = SageMakerEndpoint(
            self,
            "Serving",
            endpoint=endpoint,
            role=role.role,
            rollback=alarms.rollback,
            store=store,
            kms_key_arn=key,
        )
        self._scale(endpoint, alarms)
        guardrails = self._guardrails(plan, limits, alarms, log)
        self.endpoint_name = endpoint.name
        self.callers = invoke_policy(self, "Callers", endpoint=endpoint, store=store)
        add_output(self, "InvokePolicyArn", self.callers.ref)
        self._add_dashboard(plan, endpoint, limits, topic=guardrails.topic.ref)
        self._outputs(served, store)

    def _guardrails(self, plan: Plan, limits: Limits, alarms: EndpointAlarms, log: logs.CfnLogGroup) -> Guardrails:
        rights = endpoint_alarms.rights(plan, self)
        guardrails = Guardrails(
            self, "Guardrails", plan=plan, limits=limits, rights=rights, announce=endpoint_alarms.announce
        )
        # The guard reads why a first deployment fails: a rollback removes endpoint, guard and log in this order.
        self.serving.node.add_dependency(guardrails)
        guardrails.node.add_dependency(log)
        alarms.notify(guardrails.topics)
        return guardrails

    def _scale(self, endpoint: Endpoint, alarms: EndpointAlarms) -> None:
        """Scale the endpoint if its range has more than one value; an alarm starts an endpoint that is at zero."""
        if endpoint.scales:
            scaling = EndpointScaling(self, "Scaling", endpoint=endpoint, serves=self.serving.serves)
            if scaling.wake is not None:
                alarms.wake(scaling.wake)

    def _add_dashboard(self, plan: Plan, endpoint: Endpoint, limits: Limits, *, topic: str) -> None:
        url = endpoint_dashboard(self, "Overview", plan=plan, endpoint=endpoint, limits=limits)
        add_output(self, "NotifyTopicArn", topic)
        add_output(self, "DashboardUrl", url)
        add_output(self, "GuardrailSummary", "; ".join(guardrail_text(plan, limits)))

    def _log(self, endpoint: Endpoint) -> logs.CfnLogGroup:
        """The log group of the containers, created before they start: SageMaker's own group would never expire."""
        kind = "InferenceComponents" if endpoint.mode is EndpointMode.COMPONENTS else "Endpoints"
        log = logs.CfnLogGroup(
            self,
            "Log",
            log_group_name=f"/aws/sagemaker/{kind}/{endpoint.name}",
            retention_in_days=LOG_RETENTION_DAYS,
        )
        log.apply_removal_policy(RemovalPolicy.DESTROY)
        return log

    def _outputs(self, served: ServingDeployment, store: EndpointStore | None) -> None:
        plan, endpoint = served.plan, served.endpoint
        add_output(self, "EndpointName", endpoint.name)
        add_output(self, "EndpointConfigName", self.serving.config.attr_endpoint_config_name)
        add_output(self, "ModelName", self.serving.model.attr_model_name)
        add_output(self, "Mode", endpoint.mode.value)
        add_output(self, "Image", endpoint.image)
        add_output(self, "Region", plan.place.region)
        if endpoint.mode is EndpointMode.COMPONENTS:
            add_output(self, "InferenceComponentName", endpoint.name)
        if endpoint.mode is EndpointMode.ASYNCHRONOUS and store is not None:
            add_output(self, "RequestsUri", store.uri(INPUT))
            add_output(self, "AnswersUri", store.uri(OUTPUT))
        elif served.serve.task is ServingTask.CHAT:
            part = f"/inference-components/{endpoint.name}" if endpoint.mode is EndpointMode.COMPONENTS else ""
            host = f"https://runtime.sagemaker.{plan.place.region}.{Aws.URL_SUFFIX}"
            add_output(self, "OpenAiUrl", f"{host}/endpoints/{endpoint.name}{part}/openai/v1")
        add_output(self, "PlanDigest", plan.digest)
