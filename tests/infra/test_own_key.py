"""`storage.kms_key_arn` on everything that the stacks encrypt, and the right to use it in each role."""

import pytest

KEY = "arn:aws:kms:us-east-2:123456789012:key/00000000-0000-0000-0000-000000000000"
PLAN = """
slipway: 1
name: keyed
target: {{kind: {kind}, region: us-east-2, instance_type: p5.48xlarge, nodes: 2}}
purchase: {{option: on-demand}}
network: {network}
storage: {{{lustre}kms_key_arn: "{key}"}}
"""
LUSTRE = "lustre_gib: 1200, "
WHERE = {"AWS::Logs::LogGroup": "KmsKeyId", "AWS::SNS::Topic": "KmsMasterKeyId", "AWS::FSx::FileSystem": "KmsKeyId"}


def statements(policy):
    return {statement["Sid"]: statement for statement in policy["PolicyDocument"]["Statement"]}


def keys(assembly):
    """The key of each log group, topic and file system, by the name of its template."""
    return [
        (name, resource["Type"], resource["Properties"].get(WHERE[resource["Type"]]))
        for name, template in assembly.templates.items()
        for resource in template["Resources"].values()
        if resource["Type"] in WHERE
    ]


@pytest.mark.parametrize("kind,lustre", [("parallelcluster", LUSTRE), ("hyperpod-slurm", LUSTRE), ("eks", "")])
def test_log_groups_and_topics_have_plan_key(synthesised, kind, lustre):
    resource_keys = keys(synthesised(PLAN.format(kind=kind, network="{}", key=KEY, lustre=lustre)))
    assert {"AWS::Logs::LogGroup", "AWS::SNS::Topic"} <= {kind for _, kind, _ in resource_keys}
    assert {key for _, _, key in resource_keys} == {KEY}


def test_guard_role_may_publish_with_plan_key(synthesised):
    assembly = synthesised(PLAN.format(kind="parallelcluster", network="{}", key=KEY, lustre=LUSTRE))
    roles = assembly.resources("training", "AWS::IAM::Role").items()
    (guard,) = (role for key, role in roles if key.startswith("GuardrailsGuardRole"))
    (policy,) = guard["Policies"]
    statement = statements(policy)["UseKey"]
    assert (statement["Resource"], statement["Action"]) == (KEY, ["kms:Decrypt", "kms:GenerateDataKey"])
    plain = synthesised("p5-spot")
    (guard,) = (
        role
        for key, role in plain.resources("training", "AWS::IAM::Role").items()
        if key.startswith("GuardrailsGuardRole")
    )
    assert "UseKey" not in statements(guard["Policies"][0])


def test_shared_network_has_no_plan_key(synthesised):
    shared = "{name: common, az_ids: [use2-az1, use2-az2]}"
    resource_keys = keys(synthesised(PLAN.format(kind="parallelcluster", network=shared, key=KEY, lustre=LUSTRE)))
    assert {key for name, _, key in resource_keys if "shared-network" in name} == {None}
    assert {key for name, _, key in resource_keys if "shared-network" not in name} == {KEY}


def test_node_group_root_volumes_have_plan_key(synthesised):
    assembly = synthesised(PLAN.format(kind="eks", network="{}", key=KEY, lustre=""))
    templates = assembly.resources("training", "AWS::EC2::LaunchTemplate").values()
    volumes = [template["LaunchTemplateData"]["BlockDeviceMappings"][0]["Ebs"] for template in templates]
    assert [(volume["Encrypted"], volume["KmsKeyId"]) for volume in volumes] == [(True, KEY)] * 2
    text = PLAN.format(kind="eks", network="{}", key=KEY, lustre="").replace(f'storage: {{kms_key_arn: "{KEY}"}}', "")
    templates = synthesised(text).resources("training", "AWS::EC2::LaunchTemplate").values()
    assert all(
        "KmsKeyId" not in template["LaunchTemplateData"]["BlockDeviceMappings"][0]["Ebs"] for template in templates
    )


def test_parallelcluster_nodes_may_create_volume_grants_with_plan_key(synthesised):
    """Its root volumes take no key of their own (ParallelCluster's schema): theirs is EBS's default of the region."""
    assembly = synthesised(PLAN.format(kind="parallelcluster", network="{}", key=KEY, lustre=""))
    policies = assembly.resources("training", "AWS::IAM::ManagedPolicy").items()
    node_policies = {
        key[:8]: statements(policy) for key, policy in policies if key.startswith(("NodePoli", "Provider"))
    }
    assert len(node_policies) == 2
    for statements_by_sid in node_policies.values():
        assert statements_by_sid["CreateVolumeGrants"]["Condition"]["Bool"] == {"kms:GrantIsForAWSResource": "true"}
        assert {statements_by_sid[sid]["Resource"] for sid in ("EncryptVolumes", "CreateVolumeGrants")} == {KEY}
    eks = synthesised(PLAN.format(kind="eks", network="{}", key=KEY, lustre=""))
    policies = eks.resources("training", "AWS::IAM::ManagedPolicy").values()
    assert not any("CreateVolumeGrants" in statements(policy) for policy in policies)
