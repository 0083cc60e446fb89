"""CloudFormation: the operations on a complete stack.

Judged by: answers recorded from AWS (tests/sandbox/aws/test_recorded_answers.py: localstack@8b9a79f,
tests/aws/services) for change sets and stacks; the rest by the CloudFormation user guide and moto 5.2.5.

Emulated: change sets that create and update, in the order of dependencies, with an event for each resource; roll-back
if a resource fails; exports and their importers; termination protection. Not emulated: states between two events (a
stack changes during the call that started the change), drift, stack policies, and the replacement of resources that an
update cannot change in place, unless their model creates another resource.
"""

import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

import yaml
from moto.cloudformation import models
from moto.cloudformation.exceptions import AlreadyExistsException, CloudFormationError, ValidationError
from moto.cloudformation.models import ChangeSet, CloudFormationBackend, Event, Stack
from moto.cloudformation.parsing import OutputMap
from moto.cloudformation.utils import generate_stack_id, yaml_tag_constructor

from launcher.agent import safe_json
from launcher.catalog import safe_yaml
from launcher.sandbox.aws.references import imports_of
from launcher.sandbox.aws.resources import ResourceFailedError, Resources

# The rules of a template, which CloudFormation evaluates before it makes or changes anything; moto passes them over.
#
# Functions and conditions are those of the CloudFormation User Guide, "Rules section syntax" and "Rule-specific
# intrinsic functions" (read 2026-11-23). The words of the refusal were not seen in an account.

_DEAD_ENDS = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "DELETE_FAILED")
_MOMENT = timedelta(milliseconds=1)
_LOCK = threading.RLock()
"""The lock that allows one stack operation at a time: the CDK CLI may deploy several stacks together."""


def broken_rules(template: Mapping[str, Any], parameters: Mapping[str, Any]) -> list[str]:
    """The messages of the assertions that fail.

    Raises:
        ValueError: a rule uses a function that is not allowed in rules.

    >>> never = {"Fn::Equals": ["a", "b"]}
    >>> broken_rules({"Rules": {"No": {"Assertions": [{"Assert": never, "AssertDescription": "name it"}]}}}, {})
    ['Rule No: name it']
    >>> listed = {"Fn::Not": [{"Fn::Contains": [["1", "2"], {"Ref": "V"}]}]}
    >>> broken_rules({"Rules": {"V": {"Assertions": [{"Assert": listed}]}}}, {"V": "3"})
    []
    """
    return [
        f"Rule {name}: {assertion.get('AssertDescription', 'an assertion does not hold')}"
        for name, rule in template.get("Rules", {}).items()
        if "RuleCondition" not in rule or _is_true(rule["RuleCondition"], parameters)
        for assertion in rule["Assertions"]
        if not _is_true(assertion["Assert"], parameters)
    ]


def _is_true(condition: Any, parameters: Mapping[str, Any]) -> bool:
    ((function, arguments),) = condition.items()
    values = [_value(argument, parameters) for argument in arguments]
    if function == "Fn::Equals":
        return bool(values[0] == values[1])
    if function == "Fn::Contains":
        return values[1] in values[0]
    if function == "Fn::Not":
        return not values[0]
    if function in ("Fn::And", "Fn::Or"):
        return all(values) if function == "Fn::And" else any(values)
    raise ValueError(f"a rule cannot use {function} here")


def _value(expression: Any, parameters: Mapping[str, Any]) -> Any:
    if isinstance(expression, Mapping):
        return str(parameters[expression["Ref"]]) if "Ref" in expression else _is_true(expression, parameters)
    return expression


class _TemplateLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads the short forms of CloudFormation's functions as moto's loader; libyaml needs a tenth of its time."""


_TemplateLoader.add_multi_constructor("!", yaml_tag_constructor)


def parse_template(template: str) -> dict[str, Any]:
    """A template as a dictionary. The CDK writes JSON; a parser of YAML needs 100 times as long to read it.

    Raises:
        YamlError: the template is neither JSON nor YAML.
    """
    try:
        return cast("dict[str, Any]", safe_json.loads(template))
    except safe_json.JsonError:
        return cast("dict[str, Any]", safe_yaml.parse_yaml(template, _TemplateLoader)[1])


class _ChangeSet(ChangeSet):
    """A change set whose template is read as that of a stack."""

    def _parse_template(self) -> None:
        self.template_dict = parse_template(self.template)


class EmulatedStack(Stack):
    """A stack whose resources are created and removed in order, with an event for each step."""

    @staticmethod
    def cloudformation_name_type() -> str:
        """Return an empty name: no property names a stack."""
        return ""

    parse_template = staticmethod(parse_template)

    def is_created(self) -> bool:
        """Whether the resources of the stack exist."""
        return self.status.endswith("_COMPLETE")

    @property
    def emulated_resources(self) -> Resources:
        """The resources of the stack."""
        return cast("Resources", self.resource_map)

    @property
    def parameter_list(self) -> list[dict[str, Any]]:
        """The parameters as DescribeStacks returns them: a list is one text, with commas."""
        hidden = self.resource_map.no_echo_parameter_keys
        return [
            {
                "ParameterKey": name,
                "ParameterValue": "****" if name in hidden else ",".join(value) if isinstance(value, list) else value,
            }
            for name, value in self.resource_map.resolved_parameters.items()
        ]

    @property
    def stack_parameters(self) -> dict[str, Any]:
        """The parameters of the stack as the request gave them, for an update that reuses them.

        moto's own copy is resolved: a reused parameter of the Parameter Store would be looked up by its value.
        """
        slots = self.template_dict.get("Parameters", {})
        return {name: self.parameters.get(name, slot.get("Default")) for name, slot in slots.items()}

    def _create_resource_map(self) -> Resources:
        resources = Resources(
            stack_id=self.stack_id,
            stack_name=self.name,
            parameters=self.parameters,
            tags=self.tags,
            account_id=self.account_id,
            region_name=self.region_name,
            template=self.template_dict,
            cross_stack_resources=self.cross_stack_resources,
        )
        resources.load()
        return resources

    def read(self, template: str, parameters: dict[str, Any]) -> Resources:
        """Parse a template and return the map of its resources; the stack itself does not change.

        Raises:
            ValidationError: the template or its parameters are invalid.
        """
        before = (self.template, self.template_dict, self.parameters)
        self.template, self.parameters = template, parameters
        try:
            self._parse_template()
            if broken := broken_rules(self.template_dict, self.stack_parameters):
                raise ValidationError(message=f"Template validation error: {'; '.join(broken)}")
            fresh = self._create_resource_map()
            fresh.order()
        except ValueError as problem:
            raise ValidationError(message=f"Template error: {problem}") from problem
        finally:
            self.template, self.template_dict, self.parameters = before
        return fresh

    def settle(self, template: str, parameters: dict[str, Any], resources: Resources) -> None:
        """Set the template, the parameters and the resources of the stack."""
        self.template, self.parameters = template, parameters
        self._parse_template()
        self.description = self.template_dict.get("Description")
        self.resource_map = resources
        # An output can be evaluated once the resources exist.
        self.output_map = OutputMap(resources, {}, self.stack_id)

    def set_status(self, status: str, why: str | None = None) -> None:
        """Set the stack's status and record the event."""
        self.status = status
        self.stack_status_reason = why
        self._add_stack_event(status, resource_status_reason=why)
        self._in_order()

    def record(self, resources: Resources, name: str, status: str, why: str | None = None) -> None:
        """Record the event of one resource."""
        event = Event(
            stack_id=self.stack_id,
            stack_name=self.name,
            logical_resource_id=name,
            physical_resource_id=resources.physical_id(name),
            resource_type=resources.type_of(name),
            resource_status=status,
            resource_status_reason=why,
            resource_properties=None,
        )
        self.events.append(event)
        self._in_order()

    def carry_out_creation(self, template: str, parameters: dict[str, Any]) -> None:
        """Create every resource of a template; on a failure remove the created resources."""
        fresh = self.read(template, parameters)
        self.settle(template, parameters, fresh)
        self.set_status("CREATE_IN_PROGRESS", "User Initiated")
        try:
            for name in fresh.order():
                self._create(fresh, name)
        except ResourceFailedError as failure:
            self.set_status(
                "ROLLBACK_IN_PROGRESS", f"The following resource(s) failed to create: [{failure.logical_id}]."
            )
            remaining = self._remove_all(fresh)
            self.set_status("ROLLBACK_FAILED" if remaining else "ROLLBACK_COMPLETE", _not_deleted(remaining))
            return
        self.output_map = self._create_output_map()
        self.set_status("CREATE_COMPLETE")

    def carry_out_update(self, template: str, parameters: dict[str, Any]) -> None:
        """Update the stack to a new template; on a failure return to the previous template."""
        before = self.emulated_resources
        fresh = self.read(template, parameters)
        fresh.adopt(before)
        self.set_status("UPDATE_IN_PROGRESS", "User Initiated")
        created: list[str] = []
        try:
            for name in fresh.order():
                if name in before:
                    self._change(fresh, name, before)
                else:
                    created.append(name)
                    self._create(fresh, name)
        except ResourceFailedError as failure:
            self._go_back(before, fresh, created, failure)
            return
        self.set_status("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
        fresh.sweep(back=False)
        remaining = self._remove_all(before, keep=set(fresh))
        self.settle(template, parameters, fresh)
        self.output_map = self._create_output_map()
        self.set_status("UPDATE_COMPLETE", _not_deleted(remaining))

    def carry_out_deletion(self) -> bool:
        """Remove every resource; False if a removal failed."""
        self.set_status("DELETE_IN_PROGRESS", "User Initiated")
        remaining = self._remove_all(self.emulated_resources)
        self.set_status("DELETE_FAILED" if remaining else "DELETE_COMPLETE", _not_deleted(remaining))
        return not remaining

    def _in_order(self) -> None:
        """Give the newest event a time after the event before it, because clients sort events by milliseconds."""
        if len(self.events) > 1:
            self.events[-1].timestamp = max(self.events[-1].timestamp, self.events[-2].timestamp + _MOMENT)

    def _create(self, resources: Resources, name: str) -> None:
        self.record(resources, name, "CREATE_IN_PROGRESS")
        try:
            resources.make(name)
        except ResourceFailedError as failure:
            self.record(resources, name, "CREATE_FAILED", failure.why)
            raise
        self.record(resources, name, "CREATE_COMPLETE")

    def _change(self, resources: Resources, name: str, before: Resources) -> None:
        try:
            changed = resources.change(name, before)
        except ResourceFailedError as failure:
            self.record(resources, name, "UPDATE_FAILED", failure.why)
            raise
        if changed:
            self.record(resources, name, "UPDATE_COMPLETE")

    def _go_back(self, before: Resources, fresh: Resources, created: list[str], failure: ResourceFailedError) -> None:
        why = f"The following resource(s) failed to update: [{failure.logical_id}]."
        self.set_status("UPDATE_ROLLBACK_IN_PROGRESS", why)
        remaining = self._remove_all(fresh, keep=set(fresh) - set(created))
        for name in [name for name in before.order() if name in fresh]:
            try:
                self._change(before, name, fresh)
            except ResourceFailedError:
                remaining.append(name)
        fresh.sweep(back=True)
        self.set_status("UPDATE_ROLLBACK_FAILED" if remaining else "UPDATE_ROLLBACK_COMPLETE", _not_deleted(remaining))

    def _remove_all(self, resources: Resources, keep: set[str] | None = None) -> list[str]:
        """Remove resources, each before the resources that it references; return the names whose removal failed."""
        remaining = []
        for name in reversed(resources.order()):
            if name not in resources.made_from or name in (keep or ()):
                continue
            self.record(resources, name, "DELETE_IN_PROGRESS")
            try:
                removed = resources.remove(name)
            except ResourceFailedError as failure:
                self.record(resources, name, "DELETE_FAILED", failure.why)
                remaining.append(name)
            else:
                self.record(resources, name, "DELETE_COMPLETE" if removed else "DELETE_SKIPPED")
        return remaining


class EmulatedCloudFormation(CloudFormationBackend):
    """All stacks of one region."""

    @property
    def _url_module(self) -> Any:
        from moto.cloudformation import urls  # noqa: PLC0415  moto finds it by the name of the backend's own module

        return urls

    def create_stack(
        self, name: str, template: str, parameters: dict[str, Any], *positional: Any, **others: Any
    ) -> EmulatedStack:
        """Create a stack without a change set."""
        with _LOCK:
            if any(stack.name == name for stack in self.stacks.values()):
                raise AlreadyExistsException(f"Stack {name} already exists")
            names = ("notification_arns", "tags", "role_arn", "enable_termination_protection")
            stack = EmulatedStack(
                stack_id=generate_stack_id(name, self.region_name, self.account_id),
                name=name,
                template={},
                parameters=parameters,
                account_id=self.account_id,
                region_name=self.region_name,
                **dict(zip(names, positional, strict=False)),
                **others,
            )
            stack.cross_stack_resources = self.exports
            stack.read(template, parameters)
            self.stacks[stack.stack_id] = stack
            stack.carry_out_creation(template, parameters)
            self._publish(stack)
            return stack

    def update_stack(self, name: str, template: str, role_arn: Any, parameters: Any, tags: Any) -> EmulatedStack:
        """Change a stack without a change set."""
        with _LOCK:
            stack = self._as_emulated(self.get_stack(name))
            resolved = self._resolve_update_parameters(instance=stack, incoming_params=parameters)
            stack.role_arn = role_arn
            stack.tags = tags if tags is not None else stack.tags
            stack.carry_out_update(template, resolved)
            self._publish(stack)
            return stack

    def create_change_set(self, *positional: Any, **named: Any) -> tuple[str, str]:
        """Store a change set after a validation of its template.

        Raises:
            AlreadyExistsException: the change set would create a stack that exists.
            ValidationError: the template or its parameters are invalid.
        """
        with _LOCK:
            name, creates = named["stack_name"], named["change_set_type"] == "CREATE"
            for stack in [stack for stack in self.stacks.values() if stack.name == name and creates]:
                if stack.status != "REVIEW_IN_PROGRESS":
                    raise AlreadyExistsException(f"Stack [{stack.name}] already exists")
                del self.stacks[stack.stack_id]
                self._forget_change_sets(stack.stack_id)
            if not creates and (status := self.get_stack(name).status) in _DEAD_ENDS:
                raise ValidationError(message=f"Stack:{name} is in {status} state and can not be updated.")
            ids: tuple[str, str] = super().create_change_set(*positional, **named)
            change_set = self.change_sets[ids[0]]
            change_set.stack.cross_stack_resources = self.exports
            try:
                self._as_emulated(change_set.stack).read(change_set.template, change_set.parameters)
            except ValidationError:
                del self.change_sets[ids[0]]
                raise
            return ids

    def change_set(self, name: str, stack_name: str | None) -> Any:
        """A change set by its ARN, or by its name and stack: the CDK uses one name for those of all stacks."""
        for arn, change_set in self.change_sets.items():
            if name == arn:
                return change_set
            if name == change_set.change_set_name and stack_name in (None, change_set.stack_name, change_set.stack_id):
                return change_set
        raise CloudFormationError("ChangeSetNotFound", f"ChangeSet [{name}] does not exist")

    def forget_change_set(self, name: str, stack_name: str | None) -> None:
        """Remove a change set; do nothing if it does not exist."""
        with _LOCK:
            arns = [
                arn
                for arn, row in self.change_sets.items()
                if name in (arn, row.change_set_name) and stack_name in (None, row.stack_name, row.stack_id)
            ]
            for arn in arns:
                del self.change_sets[arn]

    def execute_change_set(self, change_set_name: str, stack_name: str | None = None) -> None:
        """Execute a change set. If a resource fails, the stack fails, and the call succeeds."""
        with _LOCK:
            change_set = self.change_set(change_set_name, stack_name)
            stack = self._as_emulated(self.stacks[change_set.stack_id])
            stack.tags = change_set.tags or stack.tags
            if change_set.change_set_type == "CREATE":
                stack.carry_out_creation(change_set.template, change_set.parameters)
            else:
                stack.carry_out_update(change_set.template, change_set.parameters)
            change_set.execution_status = "EXECUTE_COMPLETE"
            self._publish(stack)

    def delete_stack(self, name_or_stack_id: str) -> None:
        """Remove a stack.

        Raises:
            ValidationError: the stack has termination protection.
        """
        with _LOCK:
            matching = [s for s in self.stacks.values() if name_or_stack_id in (s.name, s.stack_id)]
            for stack in matching:
                if stack.enable_termination_protection:
                    text = f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled"
                    raise ValidationError(message=text)
                self._delete(self._as_emulated(stack))

    def importers(self, export: str) -> list[str]:
        """The names of the stacks that import an export."""
        return [stack.name for stack in self.stacks.values() if export in imports_of(stack.template_dict)]

    def protect(self, name: str, *, enabled: bool) -> EmulatedStack:
        """Turn the termination protection of a stack on or off."""
        with _LOCK:
            stack = self._as_emulated(self.get_stack(name))
            stack.enable_termination_protection = enabled
            return stack

    @staticmethod
    def _as_emulated(stack: Stack) -> EmulatedStack:
        """A stack as an EmulatedStack: moto's own class is never used."""
        return cast("EmulatedStack", stack)

    def _delete(self, stack: EmulatedStack) -> None:
        for export in stack.exports:
            users = self.importers(export.name)
            if users:
                stack.set_status(
                    "DELETE_FAILED", f"Export {export.name} cannot be deleted as it is in use by {users[0]}"
                )
                return
        if stack.carry_out_deletion():
            self._withdraw(stack)
            self.deleted_stacks[stack.stack_id] = self.stacks.pop(stack.stack_id)
            self._forget_change_sets(stack.stack_id)

    def _forget_change_sets(self, stack_id: str) -> None:
        """Remove a stack's change sets: the CDK uses the same name for those of the next stack with the same name."""
        for arn in [arn for arn, change_set in self.change_sets.items() if change_set.stack_id == stack_id]:
            del self.change_sets[arn]

    def _publish(self, stack: EmulatedStack) -> None:
        self._withdraw(stack)
        if stack.status.endswith("ROLLBACK_COMPLETE") and not stack.status.startswith("UPDATE"):
            return
        self.exports.update({export.name: export for export in stack.exports})

    def _withdraw(self, stack: EmulatedStack) -> None:
        for name in [name for name, export in self.exports.items() if export.exporting_stack_id == stack.stack_id]:
            del self.exports[name]


def install() -> None:
    """Replace moto's stacks with these."""
    setattr(models, Stack.__name__, EmulatedStack)
    setattr(models, ChangeSet.__name__, _ChangeSet)
    models.cloudformation_backends.backend = EmulatedCloudFormation


def _not_deleted(names: list[str]) -> str | None:
    return f"The following resource(s) failed to delete: [{', '.join(names)}]." if names else None
