"""The training stack: EFA's rules, the nodes' permissions, and the shown cluster."""

import json

import yaml

from launcher.agent.store import objects
from launcher.rendering.names import OUTPUTS, symbolic_names
from launcher.targets.parallelcluster.files import cluster_yaml
from tests.checks import some
from tests.infra.reading import garbage, with_words


def configuration(assembly):
    return assembly.only("training", "Custom::PclusterCluster")["ClusterConfiguration"]


def statements(properties):
    return {statement["Sid"]: statement for statement in properties["PolicyDocument"]["Statement"]}


def node_statements(assembly):
    """What nodes may; nodes with Session Manager access have a policy more, where sessions are logged."""
    node_policies = [
        statements(resource)
        for resource in assembly.resources("training", "AWS::IAM::ManagedPolicy").values()
        if resource.get("Path") == "/parallelcluster/"
    ]
    (policy,) = (policy for policy in node_policies if not {"Sessions", "WriteSessions"} & policy.keys())
    return policy


class TestSecurityGroup:
    def test_security_group_allows_all_traffic_between_members(self, assembly):
        (group,) = assembly.resources("training", "AWS::EC2::SecurityGroup")
        itself = {"Fn::GetAtt": [group, "GroupId"]}
        inward = assembly.only("training", "AWS::EC2::SecurityGroupIngress")
        outward = assembly.only("training", "AWS::EC2::SecurityGroupEgress")
        assert (inward["IpProtocol"], inward["GroupId"], inward["SourceSecurityGroupId"]) == ("-1", itself, itself)
        assert (outward["IpProtocol"], outward["GroupId"], outward["DestinationSecurityGroupId"]) == (
            "-1",
            itself,
            itself,
        )

    def test_cluster_depends_on_security_group_rules(self, p5):
        (cluster,) = (
            resource
            for resource in p5.template("training")["Resources"].values()
            if resource["Type"] == "Custom::PclusterCluster"
        )
        rules = [
            *p5.resources("training", "AWS::EC2::SecurityGroupIngress"),
            *p5.resources("training", "AWS::EC2::SecurityGroupEgress"),
        ]
        assert set(rules) <= set(cluster["DependsOn"])

    def test_security_groups_allow_no_inbound_internet(self, assembly):
        for template in some(assembly.templates.values()):
            for resource in template["Resources"].values():
                if resource["Type"] in ("AWS::EC2::SecurityGroup", "AWS::EC2::SecurityGroupIngress"):
                    ranges = json.dumps(resource).replace("10.0.0.0/16", "")
                    assert "0.0.0.0/0" not in ranges
                    assert "::/0" not in ranges


class TestNodePolicy:
    def test_node_role_statements_limited_to_store_prefix(self, p5):
        statements_by_sid = node_statements(p5)
        denied = {"DenyGuardWrites", "DenyGuardMetrics"}
        assert denied == {sid for sid, statement in statements_by_sid.items() if statement["Effect"] == "Deny"}
        assert set(statements_by_sid) - denied == {
            "ListCheckpoints",
            "WriteCheckpoints",
            "MarkSuperseded",
            "GetSetUpScripts",
        }
        assert len(statements_by_sid["GetSetUpScripts"]["Resource"]) == 2
        assert statements_by_sid["ListCheckpoints"]["Condition"] == {"StringLike": {"s3:prefix": ["jobs/*"]}}
        assert statements_by_sid["WriteCheckpoints"]["Resource"]["Fn::Join"][1][-1] == "/jobs/*"

    def test_existing_store_limited_to_prefix(self, synthesised):
        statements_by_sid = node_statements(synthesised("existing-vpc"))
        assert statements_by_sid["ListCheckpoints"]["Condition"] == {"StringLike": {"s3:prefix": ["runs/vpc/*"]}}
        assert (
            statements_by_sid["WriteCheckpoints"]["Resource"]["Fn::Join"][1][-1]
            == ":s3:::weights-of-the-team/runs/vpc/*"
        )

    def test_own_checkpoints_and_data_granted_with_keys(self, synthesised):
        key = "arn:aws:kms:us-east-2:123456789012:key"
        statements_by_sid = node_statements(
            synthesised(f"""
slipway: 1
name: own
target: {{kind: parallelcluster, region: us-east-2, instance_type: p5.48xlarge, nodes: 1}}
purchase: {{option: on-demand}}
workload: {{train: {{model: llama-3.1-8b, hours: 1}}}}
checkpoint: {{mode: own, uri: s3://team/runs/a, kms_key_arn: {key}/own}}
run: {{data: [{{uri: s3://corpus/tokens/, path: /scratch/tokens, kms_key_arn: {key}/data}}]}}
""")
        )
        assert statements_by_sid["WriteCheckpoints"]["Resource"]["Fn::Join"][1][-1] == "/jobs/*"
        assert "s3:DeleteObject" in statements_by_sid["WriteOwnCheckpoints"]["Action"]
        assert statements_by_sid["ReadData"]["Action"] == "s3:GetObject"
        for sid, below in (("WriteOwnCheckpoints", "team/runs/a"), ("ReadData", "corpus/tokens")):
            assert statements_by_sid[sid]["Resource"]["Fn::Join"][1][-1] == f":s3:::{below}/*"
        assert statements_by_sid["ListData"]["Condition"] == {"StringLike": {"s3:prefix": ["tokens", "tokens/*"]}}
        assert (
            statements_by_sid["UseKeyOfOwnCheckpoints"]["Resource"],
            statements_by_sid["UseKeyOfData"]["Resource"],
        ) == (
            f"{key}/own",
            f"{key}/data",
        )
        assert statements_by_sid["UseKeyOfData"]["Action"] == "kms:Decrypt"

    def test_nodes_tag_objects_only_as_superseded(self, assembly):
        statements_by_sid = node_statements(assembly)
        tagging = [
            sid
            for sid, statement in statements_by_sid.items()
            if "s3:PutObjectTagging" in json.dumps(statement["Action"])
        ]
        assert tagging == ["MarkSuperseded"]
        assert statements_by_sid["MarkSuperseded"]["Condition"] == {
            "StringEquals": {f"s3:RequestObjectTag/{objects.TAG}": [objects.KEPT, objects.SUPERSEDED]},
            "ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": [objects.TAG]},
        }
        assert statements_by_sid["MarkSuperseded"]["Resource"] == statements_by_sid["WriteCheckpoints"]["Resource"]

    def test_nodes_delete_only_compile_cache_locks(self, assembly):
        for sid, statement in some(node_statements(assembly).items()):
            if "s3:DeleteObject" in statement["Action"] and statement["Effect"] == "Allow":
                assert sid == "UnlockCompileCache"
                assert statement["Resource"]["Fn::Join"][1][-1] == "/jobs/.compile-cache/*"

    def test_secrets_granted_one_by_one(self, synthesised):
        secret = node_statements(synthesised("existing-vpc"))["ReadSecrets"]
        assert secret["Resource"] == "arn:aws:secretsmanager:us-east-2:123456789012:secret:hf-AbCdEf"

    def test_secret_with_several_json_keys_granted_once(self):
        from infra.parts.node_policy import secret_statements

        arn = "arn:aws:secretsmanager:us-east-2:123456789012:secret:hf-AbCdEf"
        read, use_keys = secret_statements((f"{arn}:HF_TOKEN::", f"{arn}:OTHER:AWSPREVIOUS:"))
        assert read.resources == [arn]
        assert use_keys.conditions["StringEquals"] == {"kms:EncryptionContext:SecretARN": [arn]}

    def test_node_role_uses_plan_kms_key(self, synthesised):
        assert node_statements(synthesised("p5en-capacity-block"))["UseKey"]["Action"] == [
            "kms:Decrypt",
            "kms:GenerateDataKey",
        ]

    def test_node_policies_attached_by_parallelcluster(self, p5):
        attached = [
            iam_policy["Policy"] for iam_policy in configuration(p5)["HeadNode"]["Iam"]["AdditionalIamPolicies"]
        ]
        policies = p5.resources("training", "AWS::IAM::ManagedPolicy").items()
        node_policies = [key for key, policy in policies if policy["Path"] == "/parallelcluster/"]
        assert len(node_policies) == 2
        assert all({"Ref": policy} in attached for policy in node_policies)

    def test_role_actions_have_no_wildcard(self, assembly):
        for template in some(assembly.templates.values()):
            for resource in template["Resources"].values():
                properties = resource.get("Properties", {})
                documents = [
                    properties.get("PolicyDocument"),
                    *(policy["PolicyDocument"] for policy in properties.get("Policies", [])),
                ]
                allowed = [
                    statement
                    for document in documents
                    if document
                    for statement in document["Statement"]
                    if statement["Effect"] == "Allow"
                ]
                for statement in allowed:
                    actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
                    # Of the bucket of the plan's data, as ParallelCluster's published policies have them.
                    published = (
                        {"s3:Get*", "s3:List*"} if statement.get("Sid") in ("ReadDataBucket", "ReadData") else set()
                    )
                    assert not [action for action in actions if "*" in action and action not in published]
                    # The guard's: test_guardrails.py shows why. DescribeLogGroups takes no resource.
                    assert statement["Resource"] != "*" or statement["Sid"] in (
                        "Describe",
                        "PutMetrics",
                        "DescribeLogGroups",
                        "Agent",
                        "Sessions",
                        "Commands",
                    )


class TestCluster:
    def test_cluster_configuration_equals_rendered_file(self, assembly, catalog):
        """Every id in the template is exchanged for the word that stands for it in the rendered file."""
        plan = assembly.plan
        shown = yaml.safe_load(cluster_yaml(plan, instances=catalog.instance_types, names=symbolic_names(plan)))
        assert with_words(configuration(assembly), shown) == shown

    def test_configuration_values_keep_types(self, assembly):
        resource = configuration(assembly)["Scheduling"]["SlurmQueues"][0]["ComputeResources"][0]
        assert [type(resource["MaxCount"]), type(resource["Efa"]["Enabled"])] == [int, bool]

    def test_cluster_name_differs_from_stack_names(self, assembly):
        name = assembly.only("training", "Custom::PclusterCluster")["ClusterName"]
        assert name == f"slipway-{assembly.plan.cluster_name}"
        assert name not in assembly.manifest

    def test_provider_stack_is_pinned_release(self, p5):
        url = json.dumps(p5.only("training", "AWS::CloudFormation::Stack")["TemplateURL"])
        assert "us-east-2-aws-parallelcluster.s3.us-east-2." in url
        assert "/parallelcluster/3.16.1/templates/custom_resource/cluster.yaml" in url
        token = p5.only("training", "Custom::PclusterCluster")["ServiceToken"]["Fn::GetAtt"]
        assert token[1] == "Outputs.ServiceToken"

    def test_setup_scripts_uploaded_and_in_outputs(self, synthesised, p5):
        assets = json.loads(
            (synthesised("trn2-capacity-block").folder / "slipway-trn2-block-training.assets.json").read_text()
        )
        assert any(file["source"]["path"].endswith(".sh") for file in assets["files"].values())
        for name in ("NodeSetupUri", "NodeMetricsUri"):
            assert "s3://" in json.dumps(p5.template("training")["Outputs"][name]["Value"])


class TestAccount:
    def test_permissions_boundary_on_every_role_and_provider(self, synthesised):
        assembly = synthesised("p5en-capacity-block")
        arn = "arn:aws:iam::123456789012:policy/engineers"
        roles = [
            resource
            for part in ("network", "checkpoints", "training")
            for resource in assembly.resources(part, "AWS::IAM::Role").values()
        ]
        assert [role["PermissionsBoundary"] for role in roles] == [arn, arn]
        assert configuration(assembly)["Iam"] == {"PermissionsBoundary": arn}
        stacks = assembly.resources("training", "AWS::CloudFormation::Stack")
        parameters = [stack["Parameters"] for stack in stacks.values()]
        assert {"PermissionsBoundaryPolicy": arn}.items() <= next(
            parameter for parameter in parameters if "EnableIamAdminAccess" in parameter
        ).items()
        assert any("CustomLambdaRole" in parameter for parameter in parameters)

    def test_qualifier_selects_bootstrap(self, synthesised, p5):
        for stack in some(synthesised("p5en-capacity-block").manifest.values()):
            assert stack["properties"]["bootstrapStackVersionSsmParameter"] == "/cdk-bootstrap/mlteam/version"
        for stack in some(p5.manifest.values()):
            assert stack["properties"]["bootstrapStackVersionSsmParameter"] == "/cdk-bootstrap/hnb659fds/version"

    def test_data_link_gives_provider_file_system_permissions(self, synthesised):
        assembly = synthesised("p4d-lustre")
        provider = assembly.only("training", "AWS::CloudFormation::Stack")
        (policy,) = (
            key
            for key, properties in assembly.resources("training", "AWS::IAM::ManagedPolicy").items()
            if "Path" not in properties
        )
        assert provider["Parameters"] == {"AdditionalIamPolicies": {"Ref": policy}}
        statements_by_sid = statements(assembly.resources("training", "AWS::IAM::ManagedPolicy")[policy])
        assert set(statements_by_sid) == {"FsxServiceRole", "ReadDataBucket", "ReadData"}
        assert statements_by_sid["ReadData"]["Resource"]["Fn::Join"][1][-1] == ":s3:::corpus-of-the-team/tokens/*"


class TestOutputs:
    def test_outputs_contain_values_for_rendering(self, assembly):
        outputs = set(assembly.template("training")["Outputs"])
        request = assembly.plan.request
        unasked = {"SessionLogPolicyArn": request.security.session_log, "StopUri": request.budget.stop_at_usd}
        assert set(OUTPUTS.values()) - outputs == {name for name, is_needed in unasked.items() if not is_needed}

    def test_outputs_contain_connect_command(self, p5):
        outputs = p5.template("training")["Outputs"]
        assert "aws ssm start-session --region us-east-2 --target " in json.dumps(outputs["Connect"]["Value"])
        assert outputs["PlanDigest"]["Value"] == p5.plan.digest
        assert outputs["ClusterName"]["Value"] == "slipway-p5-spot"

    def test_stacks_have_cluster_tag_and_training_stack_plan_tags(self, assembly):
        cluster = {"slipway:cluster": assembly.plan.cluster_name}
        whole = cluster | {"slipway:plan": assembly.plan.name, "slipway:digest": assembly.plan.digest}
        for name, stack in some(assembly.manifest.items()):
            if not name.endswith("-shared-network"):
                assert stack["properties"]["tags"] == (whole if name.endswith("-training") else cluster)


LUSTRE_WITH_KEY = """
slipway: 1
name: keyed
target: {region: us-east-2, instance_type: p5.48xlarge, nodes: 2}
purchase: {option: on-demand}
storage: {lustre_gib: 1200, kms_key_arn: "arn:aws:kms:us-east-2:123456789012:key/00000000-0000-0000-0000-000000000000"}
"""


def test_provider_may_use_file_system_key(synthesised):
    """AWS's published policies name no key (aws-parallelcluster, parallelcluster-policies.yaml @003dc38)."""
    assembly = synthesised(LUSTRE_WITH_KEY)
    (policy,) = (
        policy
        for key, policy in assembly.resources("training", "AWS::IAM::ManagedPolicy").items()
        if key.startswith("ProviderAccess")
    )
    statement = statements(policy)["EncryptFileSystem"]
    assert statement["Action"] == ["kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"]
    assert statement["Resource"] == assembly.plan.request.storage.kms_key_arn
    assert "fsx.*." in json.dumps(statement["Condition"]["StringLike"]["kms:ViaService"])
    assert "AdditionalIamPolicies" in assembly.only("training", "AWS::CloudFormation::Stack")["Parameters"]


def test_asset_garbage_collection_keeps_node_files(assembly):
    assert garbage(assembly) == []
