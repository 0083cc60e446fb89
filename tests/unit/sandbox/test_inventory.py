from launcher.sandbox.sandbox import not_emulated, resources_of

ENTRY = {
    "stack": "net",
    "logical_id": "Vpc",
    "type": "AWS::EC2::VPC",
    "physical_id": "vpc-1",
    "model": "sandbox",
    "reason": "",
    "ignored": [],
}


def ledger(*entries, actions=None):
    return {"resources": [ENTRY | entry for entry in entries], "actions": actions or {}}


class TestNotEmulated:
    def test_what_has_a_model_is_not_in_it(self):
        assert not_emulated(ledger({}), {}) == {}

    def test_each_thing_stands_once(self):
        nothing = {"type": "AWS::XRay::Group", "model": "nothing", "reason": "no model"}
        not_emulated_names = not_emulated(ledger(nothing | {"logical_id": "A"}, nothing | {"logical_id": "B"}), {})
        assert not_emulated_names == {"AWS::XRay::Group": "no model"}

    def test_properties_calls_and_parts_of_clusters(self):
        not_emulated_names = not_emulated(
            ledger({"ignored": ["Ipv4IpamPoolId"]}, actions={"ec2: X": 1}), {"demo": ["Monitoring"]}
        )
        assert list(not_emulated_names) == [
            "AWS::EC2::VPC.Ipv4IpamPoolId",
            "call to ec2: X",
            "cluster demo: Monitoring",
        ]

    def test_of_some_stacks(self):
        book = ledger({"stack": "CDKToolkit", "ignored": ["X"]}, {"stack": "net", "ignored": ["Y"]})
        assert list(not_emulated(book, {}, {"net"})) == ["AWS::EC2::VPC.Y"]


class TestResources:
    def test_come_as_they_were_written(self):
        (resource,) = resources_of(ledger({}))
        assert (resource.stack, resource.type, resource.physical_id, resource.model) == (
            "net",
            "AWS::EC2::VPC",
            "vpc-1",
            "sandbox",
        )
