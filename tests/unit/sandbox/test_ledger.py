import copy

from launcher.sandbox.aws.ledger import MOTO, EmulationLedger, Properties, Resource


class TestProperties:
    def test_membership_test_does_not_count_as_reading_a_property(self):
        properties = Properties({"Tags": []})
        assert "Tags" in properties
        assert properties.unread() == ("Tags",)

    def test_unpacking_all_properties_counts_as_reading(self):
        properties = Properties({"A": 1, "B": 2})
        assert {**properties} == {"A": 1, "B": 2}
        assert properties.unread() == ()

    def test_deep_copied_properties_can_be_read(self):
        assert copy.deepcopy(Properties({"A": [1]}))["A"] == [1]


class TestLedger:
    def test_repeated_remark_is_recorded_once(self):
        ledger = EmulationLedger()
        ledger.record(Resource(stack="s", logical_id="A", type="T", physical_id="a", model=MOTO))

        ledger.remark("s", "A", "an update")
        ledger.remark("s", "A", "an update")
        ledger.remark("s", "Gone", "an update")
        assert [entry["ignored"] for entry in ledger.document()["resources"]] == [("an update",)]

    def test_repeated_missing_calls_are_counted(self):
        ledger = EmulationLedger()
        ledger.missing_action("ec2: X")
        ledger.missing_action("ec2: X")
        assert ledger.document()["actions"] == {"ec2: X": 2}
