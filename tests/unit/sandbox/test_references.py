import pytest

from launcher.sandbox.aws.references import imports_of, in_order


class TestInOrder:
    def test_depends_on_orders_resources(self):
        resources = {"Cluster": {"DependsOn": ["Rule"]}, "Rule": {"DependsOn": "Group"}, "Group": {}}
        assert in_order(resources) == ["Group", "Rule", "Cluster"]

    def test_deeply_nested_references_order_resources(self):
        resources = {
            "A": {"Properties": {"X": {"Fn::If": ["Wanted", {"Fn::GetAtt": "B.Arn"}, {"Ref": "AWS::NoValue"}]}}},
            "B": {"Properties": {"Y": [{"Fn::Sub": ["${C}-${local}", {"local": {"Ref": "D"}}]}]}},
            "C": {},
            "D": {},
        }
        assert in_order(resources) == ["C", "D", "B", "A"]

    def test_circular_reference_is_refused_with_the_cycle(self):
        with pytest.raises(ValueError, match=r"A -> B -> A|B -> A -> B"):
            in_order({"A": {"X": {"Ref": "B"}}, "B": {"X": {"Ref": "A"}}})


class TestImports:
    def test_imports_are_found_in_lists_and_joins(self):
        template = {"Resources": {"A": {"X": [{"Fn::Join": ["", ["a", {"Fn::ImportValue": "net:Id"}]]}]}}}
        assert imports_of(template) == {"net:Id"}
