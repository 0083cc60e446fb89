"""The policies of docs/deployer-policy.md against the stacks of endpoints, and against what asks one."""

from fnmatch import fnmatchcase

from tests.infra.test_deployer_policy import CLOUDFORMATION, PERSON, allowed, needed

ACCOUNT = "123456789012"
LOG_GROUP, NAMED = "AWS::Logs::LogGroup", {"AWS::SageMaker::Endpoint": "EndpointName"}
NAMED["AWS::SageMaker::InferenceComponent"] = "InferenceComponentName"


def resources(example, kind):
    return [
        each.get("Properties", {})
        for template in example.templates.values()
        for each in template["Resources"].values()
        if each["Type"] == kind
    ]


def covered(policy, action, arn):
    """Whether a policy allows an action on a resource."""
    return any(
        action in listed(each["Action"]) and any(fnmatchcase(arn, pattern) for pattern in listed(each["Resource"]))
        for each in policy["Statement"]
    )


def listed(value):
    return value if isinstance(value, list) else [value]


def test_every_type_of_an_endpoints_stack_is_allowed(example):
    types = {each["Type"] for template in example.templates.values() for each in template["Resources"].values()}
    types -= {"AWS::CDK::Metadata"}
    assert types <= set(needed())
    assert set().union(*(needed()[each] for each in types)) <= allowed(CLOUDFORMATION)


def test_what_it_names_is_covered(example):
    for kind, key in NAMED.items():
        for each in resources(example, kind):
            word = "endpoint" if kind.endswith("::Endpoint") else "inference-component"
            arn = f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:{word}/{each[key]}"
            assert covered(CLOUDFORMATION, f"sagemaker:Create{kind.rpartition('::')[2]}", arn)
            assert covered(PERSON, "sagemaker:InvokeEndpoint", arn)
    for each in resources(example, LOG_GROUP):
        if isinstance(name := each.get("LogGroupName"), str):
            arn = f"arn:aws:logs:us-east-1:{ACCOUNT}:log-group:{name}"
            assert covered(CLOUDFORMATION, "logs:CreateLogGroup", arn)
            assert covered(PERSON, "logs:GetLogEvents", arn)


def test_whoever_asks_may_sign_tokens():
    assert covered(PERSON, "sagemaker:CallWithBearerToken", "*")
