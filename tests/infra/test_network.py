"""The network: one private subnet in the capacity's zone, outbound routes only."""

import json

import pytest

from launcher.model.errors import ImpossibleError


def subnets(assembly):
    return assembly.resources("network", "AWS::EC2::Subnet")


class TestSubnets:
    def test_nodes_share_one_private_subnet_in_pinned_zone(self, synthesised):
        made_subnets = subnets(synthesised("trn2-capacity-block"))
        assert {subnet["AvailabilityZoneId"] for subnet in made_subnets.values()} == {"use2-az3"}
        assert sorted(subnet["CidrBlock"] for subnet in made_subnets.values()) == ["10.0.0.0/28", "10.0.128.0/17"]

    def test_open_zone_resolves_to_first_zone_offering_type(self, p5, catalog):
        (zone,) = {subnet["AvailabilityZoneId"] for subnet in subnets(p5).values()}
        offered = catalog.instance_types["p5.48xlarge"].az_ids
        assert zone == next(az_id for az_id in offered if catalog.region_of_az(az_id) == "us-east-2")

    def test_subnets_assign_no_public_addresses(self, p5):
        assert [subnet["MapPublicIpOnLaunch"] for subnet in subnets(p5).values()] == [False, False]


class TestEgress:
    def test_private_subnet_routes_only_through_nat(self, p5):
        routes = p5.resources("network", "AWS::EC2::Route")
        (nat,) = p5.resources("network", "AWS::EC2::NatGateway")
        out = {route["RouteTableId"]["Ref"]: route for route in routes.values()}
        (private,) = (key for key in p5.resources("network", "AWS::EC2::RouteTable") if "Private" in key)
        assert out[private]["NatGatewayId"] == {"Ref": nat}
        assert "GatewayId" not in out[private]

    def test_s3_and_dynamodb_use_gateway_endpoints(self, p5):
        endpoints = p5.resources("network", "AWS::EC2::VPCEndpoint").values()
        assert {endpoint["VpcEndpointType"] for endpoint in endpoints} == {"Gateway"}
        services = {endpoint["ServiceName"] for endpoint in endpoints}
        assert services == {"com.amazonaws.us-east-2.s3", "com.amazonaws.us-east-2.dynamodb"}
        for endpoint in endpoints:
            (table,) = endpoint["RouteTableIds"]
            assert "Private" in table["Ref"]

    def test_nat_gateway_is_in_public_subnet(self, p5):
        assert "Public" in p5.only("network", "AWS::EC2::NatGateway")["SubnetId"]["Ref"]

    def test_rejected_connections_are_logged_for_30_days(self, p5):
        assert p5.only("network", "AWS::EC2::FlowLog")["TrafficType"] == "REJECT"
        assert p5.only("network", "AWS::Logs::LogGroup")["RetentionInDays"] == 30

    def test_vpc_dns_is_enabled(self, p5):
        vpc = p5.only("network", "AWS::EC2::VPC")
        assert (vpc["EnableDnsSupport"], vpc["EnableDnsHostnames"]) == (True, True)


class TestPublic:
    """Nodes with public addresses: no NAT gateway, one subnet, no inbound rule from outside."""

    @pytest.fixture
    def small(self, synthesised):
        return synthesised("g6e-lora")

    def test_node_subnet_without_nat_has_public_addresses_and_internet_gateway(self, small):
        (subnet,) = subnets(small).values()
        assert (subnet["MapPublicIpOnLaunch"], subnet["CidrBlock"]) == (True, "10.0.128.0/17")
        route = small.only("network", "AWS::EC2::Route")
        (gateway,) = small.resources("network", "AWS::EC2::InternetGateway")
        assert (route["DestinationCidrBlock"], route["GatewayId"]) == ("0.0.0.0/0", {"Ref": gateway})
        assert small.resources("network", "AWS::EC2::NatGateway") == {}
        assert small.resources("network", "AWS::EC2::EIP") == {}

    def test_network_without_nat_keeps_gateway_endpoints(self, small):
        endpoints = small.resources("network", "AWS::EC2::VPCEndpoint").values()
        (table,) = small.resources("network", "AWS::EC2::RouteTable")
        assert [endpoint["RouteTableIds"] for endpoint in endpoints] == [[{"Ref": table}]] * 2

    def test_parallelcluster_without_nat_has_public_addresses_and_no_open_port(self, small):
        cluster = small.only("training", "Custom::PclusterCluster")["ClusterConfiguration"]
        (queue,) = cluster["Scheduling"]["SlurmQueues"]
        assert cluster["HeadNode"]["Networking"]["ElasticIp"] is True
        assert queue["Networking"]["AssignPublicIp"] is True
        assert cluster["HeadNode"]["Ssh"]["AllowedIps"] == "127.0.0.1/32"

    def test_security_group_without_nat_allows_only_members(self, small):
        (rule,) = small.resources("training", "AWS::EC2::SecurityGroupIngress").values()
        assert rule["SourceSecurityGroupId"] == rule["GroupId"]

    def test_planned_nat_gateway_is_created(self, synthesised):
        text = GATEWAY.replace("NODES", "1")
        assert len(synthesised(text).resources("network", "AWS::EC2::NatGateway")) == 1

    def test_many_nodes_keep_nat_gateway(self, synthesised):
        text = GATEWAY.replace("NODES", "9").replace("network: {nat: gateway}", "")
        assembly = synthesised(text)
        assert len(assembly.resources("network", "AWS::EC2::NatGateway")) == 1
        assert (
            "ElasticIp" not in assembly.only("training", "Custom::PclusterCluster")["ClusterConfiguration"]["HeadNode"]
        )


GATEWAY = """
slipway: 1
name: small
target: {kind: parallelcluster, region: us-east-1, instance_type: g5.2xlarge, nodes: NODES}
purchase: {option: on-demand}
network: {nat: gateway}
"""


class TestPcs:
    PLAN = """
slipway: 1
name: small-pcs
target: {kind: pcs, region: us-east-1, instance_type: g6e.2xlarge, nodes: 1}
storage: {lustre_gib: 1200}
purchase: {option: on-demand}
"""

    def test_pcs_nodes_without_nat_get_public_addresses_from_subnet(self, synthesised):
        assembly = synthesised(self.PLAN)
        (subnet,) = subnets(assembly).values()
        assert subnet["MapPublicIpOnLaunch"] is True
        for template in assembly.resources("training", "AWS::EC2::LaunchTemplate").values():
            interfaces = template["LaunchTemplateData"].get("NetworkInterfaces", [])
            assert len(interfaces) <= 1, "EC2 gives an instance with several interfaces no public address"
        (group,) = assembly.resources("training", "AWS::EC2::SecurityGroup").values()
        assert [rule["Description"] for rule in group["SecurityGroupEgress"]] == [
            "To AWS's services and package repositories"
        ]


class TestShared:
    """Two plans that share a network; each knows the whole of it and nothing of the other."""

    OTHER = """
slipway: 1
name: team-b
target: {region: us-east-2, az_id: use2-az1, instance_type: trn2.48xlarge, nodes: 4}
purchase: {option: on-demand}
network: {name: team, az_ids: [use2-az1, use2-az3], endpoints: [ssm, ssmmessages]}
"""

    @pytest.fixture
    def team(self, synthesised):
        return synthesised("shared-network")

    def test_shared_network_template_is_equal_for_every_plan(self, team, synthesised):
        other = synthesised(self.OTHER)
        name = "slipway-team-shared-network"
        assert name in team.manifest
        assert name in other.manifest
        assert team.template("network") == other.template("network")
        assert team.manifest[name]["properties"]["tags"] == {"slipway:network": "team"}

    def test_shared_network_has_subnet_per_zone_and_one_nat(self, team):
        private = {
            subnet["AvailabilityZoneId"]: subnet["CidrBlock"]
            for key, subnet in subnets(team).items()
            if "Public" not in key
        }
        assert private == {"use2-az1": "10.0.128.0/20", "use2-az3": "10.0.160.0/20"}
        assert len(team.resources("network", "AWS::EC2::NatGateway")) == 1
        tables = team.resources("network", "AWS::EC2::SubnetRouteTableAssociation").values()
        assert sum("Private" in table["RouteTableId"]["Ref"] for table in tables) == 2

    def test_cluster_imports_shared_subnet_of_zone_by_export(self, team):
        cluster = team.only("training", "Custom::PclusterCluster")["ClusterConfiguration"]
        subnet = {"Fn::ImportValue": "slipway-team-shared-network:PrivateSubnetId:use2-az3"}
        assert cluster["HeadNode"]["Networking"]["SubnetId"] == subnet
        exports = {output["Export"]["Name"] for output in team.template("network")["Outputs"].values()}
        assert subnet["Fn::ImportValue"] in exports
        assert "slipway-team-shared-network" in team.manifest["slipway-team-a-training"]["dependencies"]

    def test_interface_endpoints_of_plan_are_in_one_zone(self, team):
        endpoints = [
            resource
            for resource in team.resources("network", "AWS::EC2::VPCEndpoint").values()
            if resource["VpcEndpointType"] == "Interface"
        ]
        assert {endpoint["ServiceName"].rpartition(".")[2] for endpoint in endpoints} == {"ssm", "ssmmessages"}
        assert all(len(endpoint["SubnetIds"]) == 1 and endpoint["PrivateDnsEnabled"] for endpoint in endpoints)
        (rule,) = team.only("network", "AWS::EC2::SecurityGroup")["SecurityGroupIngress"]
        assert (rule["CidrIp"], rule["FromPort"], rule["ToPort"]) == ("10.0.0.0/16", 443, 443)


class TestExisting:
    def test_existing_network_is_used_unchanged(self, synthesised):
        assembly = synthesised("existing-vpc")
        assert assembly.template("network") == {}
        assert assembly.only("training", "AWS::EC2::SecurityGroup")["VpcId"] == "vpc-0a1b2c3d4e5f60718"
        cluster = assembly.only("training", "Custom::PclusterCluster")["ClusterConfiguration"]
        assert cluster["HeadNode"]["Networking"]["SubnetId"] == "subnet-0a1b2c3d4e5f60718"

    def test_synthesis_needs_no_context_lookup(self, assembly):
        for artifact in assembly.manifest.values():
            assert "missing" not in artifact
        assert "missing" not in json.loads((assembly.folder / "manifest.json").read_text())


class TestTooSmall:
    PLAN = """
slipway: 1
name: crowded
target: {{region: us-east-2, instance_type: p5.48xlarge, nodes: {nodes}, efa_layout: {layout}}}
purchase: {{option: on-demand}}
network: {{cidr: 10.0.0.0/24}}
"""

    def test_too_few_subnet_addresses_refused_before_synthesis(self, synthesised):
        with pytest.raises(ImpossibleError) as refusal:
            synthesised(self.PLAN.format(nodes=4, layout="classic"))
        (finding,) = refusal.value.findings
        assert (
            finding.message == "the private subnet 10.0.0.128/25 has 123 addresses, the cluster takes 129 with 4 nodes"
        )
        assert "efa_layout: auto" in finding.hint

    def test_efa_only_interfaces_need_one_address_per_node(self, synthesised):
        assert synthesised(self.PLAN.format(nodes=4, layout="auto")).template("network")
