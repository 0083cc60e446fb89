"""Reads a torchx component: the AppDef that a Python file returns, without running the file."""

import ast
from collections.abc import Mapping
from typing import Any

from launcher.catalog.load import Catalog
from launcher.model.errors import UnreadableInputError
from launcher.workflow.quote.imports.imported import Imported

KNOWN = {"name", "image", "entrypoint", "args", "num_replicas", "resource", "env", "max_retries", "min_replicas"}


def read_torchx(text: str, catalog: Catalog) -> Imported:
    """The plan of the first role of a component's AppDef."""
    imported = Imported(kind="a torchx component")
    (function, app), *others = _components(text)
    names = _defaults(function)
    words = {key.arg: key.value for key in app.keywords if key.arg}
    imported.name(_text(words.get("name"), names) or function.name)
    assigned = _assigned_values(function)
    calls, several = _roles(words.get("roles"), assigned)
    if not calls:
        raise UnreadableInputError(
            f"the component {function.name} has no list of roles", hint="write roles=[specs.Role(...)]"
        )
    role = {key.arg: _resolve(key.value, assigned) for key in calls[0].keywords if key.arg}
    _role(imported, role, names, catalog)
    if several:
        imported.lose("the number of roles", "known only at a run: the plan has the command of one")
    elif len(calls) > 1:
        imported.lose(f"{len(calls) - 1} more roles", "a plan has one command")
    if others:
        named = ", ".join(other.name for other, _ in others)
        imported.lose(f"components {named}", f"the plan is that of {function.name}: give each a file of its own")
    for parameter, value in names.items():
        if value is None:
            imported.lose(f"parameter {parameter}", "it has no default: its value is not in the plan")
    return imported


def _components(text: str) -> list[tuple[ast.FunctionDef, ast.Call]]:
    """The functions that return an AppDef, each with its first."""
    try:
        tree = ast.parse(text)
    except SyntaxError as problem:
        raise UnreadableInputError(f"the component is not valid Python: {problem}") from problem
    components: dict[ast.FunctionDef, ast.Call] = {}
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _called_name(node.func) == "AppDef":
                components.setdefault(function, node)
    if components:
        return list(components.items())
    raise UnreadableInputError("no function of the file returns an AppDef", hint="name a file with a torchx component")


def _assigned_values(function: ast.FunctionDef) -> dict[str, ast.expr]:
    """The values of the names that the function assigns once."""
    values: dict[str, ast.expr] = {}
    counts: dict[str, int] = {}
    for node in ast.walk(function):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        for target in targets if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) else ():
            if isinstance(target, ast.Name) and value is not None:
                values[target.id] = value
                counts[target.id] = counts.get(target.id, 0) + 1
    # Which of several values a name has is known only at a run.
    return {name: value for name, value in values.items() if counts[name] == 1}


def _resolve(node: ast.expr | None, assigned: Mapping[str, ast.expr]) -> ast.expr | None:
    return assigned.get(node.id, node) if isinstance(node, ast.Name) else node


def _roles(node: ast.expr | None, assigned: Mapping[str, ast.expr]) -> tuple[list[ast.Call], bool]:
    """The roles of an AppDef, and whether their number is known only at a run."""
    roles = _resolve(node, assigned)
    several = isinstance(roles, ast.ListComp)
    items = [roles.elt] if isinstance(roles, ast.ListComp) else roles.elts if isinstance(roles, ast.List) else []
    resolved = [_resolve(item, assigned) for item in items]
    return [item for item in resolved if isinstance(item, ast.Call)], several


def _called_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _defaults(function: ast.FunctionDef) -> dict[str, Any]:
    """The parameters with their defaults; None where a parameter has none that is a constant."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    missing = len(arguments) - len(function.args.defaults)
    pairs = list(zip(arguments, [None] * missing + list(function.args.defaults), strict=True))
    pairs += list(zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True))
    return {argument.arg: default.value if isinstance(default, ast.Constant) else None for argument, default in pairs}


def _role(imported: Imported, role: Mapping[str, ast.expr | None], names: Mapping[str, Any], catalog: Catalog) -> None:
    entry = _text(role.get("entrypoint"), names)
    arguments = role.get("args")
    words = [entry] if entry else []
    if isinstance(arguments, ast.List):
        for item in arguments.elts:
            word = _text(item, names)
            # The place of the argument must stay: the ones after it may depend on it.
            words.append(word if word is not None else f"${{{ast.unparse(item).strip('*')}}}")
            if word is None:
                imported.lose(f"argument {ast.unparse(item)}", "its value is known only at a run: it stands as ${...}")
    if words:
        imported.put("run.command", words)
    replicas = _value(role.get("num_replicas"), names)
    imported.put("target.nodes", replicas if isinstance(replicas, int) else 1)
    if image := _text(role.get("image"), names):
        imported.put("run.image", image)
    env = role.get("env")
    if isinstance(env, ast.Dict):
        pairs = [(_text(key, names), _text(value, names)) for key, value in zip(env.keys, env.values, strict=True)]
        imported.put("run.env", {key: value for key, value in pairs if key and value is not None})
    retries = _value(role.get("max_retries"), names)
    if isinstance(retries, int):
        imported.put("run.retries", retries)
    _resource(imported, role.get("resource"), names, catalog)
    # TorchX knows no spot: its jobs run until they end.
    imported.put("purchase.option", "on-demand")
    _lose_unknown(imported, role, names)
    for key in sorted(set(role) - KNOWN):
        imported.lose(key, "no key of a plan")


def _lose_unknown(imported: Imported, role: Mapping[str, ast.expr | None], names: Mapping[str, Any]) -> None:
    """Name the values of a role that its file does not have; a parameter without default is named once, elsewhere."""
    nodes = [(key, role.get(key)) for key in ("entrypoint", "num_replicas", "image", "max_retries")]
    for key, form in (("args", ast.List), ("env", ast.Dict)):
        node = role.get(key)
        if isinstance(node, ast.Dict):
            nodes += [
                (f"{key} {item and ast.unparse(item)}", value)
                for item, value in zip(node.keys, node.values, strict=True)
            ]
        elif not isinstance(node, form):
            nodes.append((key, node))
    for key, node in nodes:
        parameter = isinstance(node, ast.Name) and node.id in names
        if node is not None and not parameter and _text(node, names) is None:
            imported.lose(f"{key} {ast.unparse(node)}", "its value is known only at a run")
    if role.get("min_replicas") is not None:
        imported.lose("min_replicas", "target.nodes takes a range for an elastic job")


def _resource(imported: Imported, node: ast.expr | None, names: Mapping[str, Any], catalog: Catalog) -> None:
    """specs.resource(h="aws_p4d.24xlarge") names a type; specs.Resource(gpu=8) only its numbers."""
    if not isinstance(node, ast.Call):
        if node is not None:
            imported.lose("resource", f"{ast.unparse(node)} is known only at a run: set target.instance_type")
        return
    words = {key.arg: _value(key.value, names) for key in node.keywords if key.arg}
    named = words.get("h") or (_text(node.args[0], names) if node.args else None)
    if named:
        kind = str(named).removeprefix("aws_")
        found = next(
            (name for name in catalog.instance_types if name.replace("-", "_") == kind.replace("-", "_")), None
        )
        if found:
            imported.put("target.instance_type", found)
        else:
            imported.lose(f"resource {named}", "no instance type of the catalog: set target.instance_type")
        return
    sizes = ", ".join(f"{key} {words[key]}" for key in ("cpu", "memMB") if words.get(key))
    if sizes:
        imported.lose(f"resource {sizes}", "target.instance_type has it")
    if words.get("gpu"):
        imported.lose(f"{words['gpu']} GPUs", "the component names no kind of GPU: set target.instance_type")


def _value(node: ast.expr | None, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    return names.get(node.id) if isinstance(node, ast.Name) else None


def _text(node: ast.expr | None, names: Mapping[str, Any]) -> str | None:
    """The text of a constant, of a parameter with a default, or of an f-string of both; None otherwise."""
    if isinstance(node, ast.JoinedStr):
        parts = [_text(part, names) for part in node.values]
        return None if None in parts else "".join(part for part in parts if part is not None)
    inner = node.value if isinstance(node, ast.FormattedValue) else node
    if isinstance(inner, ast.Call) and _called_name(inner.func) == "str" and inner.args:
        inner = inner.args[0]
    value = _value(inner, names)
    return None if value is None else str(value)
