import copy

from launcher.sandbox.aws.ledger import MOTO, Ledger, Properties, Resource


class TestProperties:
    def test_a_look_whether_a_name_is_there_is_no_reading(self):
        properties = Properties({"Tags": []})
        assert "Tags" in properties
        assert properties.unread() == ("Tags",)

    def test_walking_over_all_reads_all(self):
        properties = Properties({"A": 1, "B": 2})
        assert {**properties} == {"A": 1, "B": 2}
        assert properties.unread() == ()

    def test_a_deep_copy_can_be_read(self):
        assert copy.deepcopy(Properties({"A": [1]}))["A"] == [1]


class TestLedger:
    def test_a_remark_is_kept_once(self):
        ledger = Ledger()
        ledger.record(Resource(stack="s", logical_id="A", type="T", physical_id="a", model=MOTO))

        ledger.remark("s", "A", "an update")
        ledger.remark("s", "A", "an update")
        ledger.remark("s", "Gone", "an update")
        assert [entry["ignored"] for entry in ledger.document()["resources"]] == [("an update",)]

    def test_calls_are_counted(self):
        ledger = Ledger()
        ledger.missing_action("ec2: X")
        ledger.missing_action("ec2: X")
        assert ledger.document()["actions"] == {"ec2: X": 2}
