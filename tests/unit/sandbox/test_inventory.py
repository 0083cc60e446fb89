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
    def test_emulated_resources_are_not_in_the_inventory(self):
        assert not_emulated(ledger({}), {}) == {}

    def test_resource_type_without_a_model_is_listed_once(self):
        nothing = {"type": "AWS::XRay::Group", "model": "nothing", "reason": "no model"}
        not_emulated_names = not_emulated(ledger(nothing | {"logical_id": "A"}, nothing | {"logical_id": "B"}), {})
        assert not_emulated_names == {"AWS::XRay::Group": "no model"}

    def test_inventory_lists_properties_calls_and_cluster_settings(self):
        not_emulated_names = not_emulated(
            ledger({"ignored": ["Ipv4IpamPoolId"]}, actions={"ec2: X": 1}), {"demo": ["Monitoring"]}
        )
        assert list(not_emulated_names) == [
            "AWS::EC2::VPC.Ipv4IpamPoolId",
            "call to ec2: X",
            "cluster demo: Monitoring",
        ]

    def test_inventory_of_a_stack_selection_leaves_out_other_stacks(self):
        book = ledger({"stack": "CDKToolkit", "ignored": ["X"]}, {"stack": "net", "ignored": ["Y"]})
        assert list(not_emulated(book, {}, {"net"})) == ["AWS::EC2::VPC.Y"]


class TestResources:
    def test_resources_of_a_ledger_read_back_unchanged(self):
        (resource,) = resources_of(ledger({}))
        assert (resource.stack, resource.type, resource.physical_id, resource.model) == (
            "net",
            "AWS::EC2::VPC",
            "vpc-1",
            "sandbox",
        )
