"""The AWS CLI of an emulated instance's image: the commands that a job of Slipway uses, and no other.

`aws s3 cp [--only-show-errors] [--recursive] SOURCE TARGET` and `aws s3 ls URI`; of other services the operations in
`OPERATIONS`, with options named after the members of the API, as in the real one, and JSON as their output.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from launcher.agent import safe_json
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.model.errors import AwsError

OPERATIONS = {
    ("autoscaling", "complete-lifecycle-action"),
    ("autoscaling", "set-desired-capacity"),
    ("autoscaling", "terminate-instance-in-auto-scaling-group"),
    ("ec2", "describe-instances"),
    ("logs", "create-log-stream"),
    ("logs", "put-log-events"),
}
USAGE, REFUSED = 252, 254
"""Exit codes of the AWS CLI, version 2: a command that cannot be parsed, and an error of the service."""


def _session() -> Session:
    return Session(environment=os.environ, region=os.environ["AWS_REGION"])


def copy(source: str, target: str, *, recursive: bool) -> int:
    """Copy one file to S3, or everything below a URI from S3."""
    if target.startswith("s3://"):
        place, _, key = target.rpartition("/")
        Objects.at(_session(), place).put(key, Path(source).read_bytes())
        return 0
    place, _, key = source.rstrip("/").rpartition("/")
    stored = Objects.at(_session(), source.rstrip("/") if recursive else place)
    for name in [entry.key for entry in stored.list_objects()] if recursive else [key]:
        path = Path(target) / name if recursive else Path(target)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(stored.read(name))
    return 0


def show(uri: str) -> int:
    """List what is below a URI; 1 if it is nothing, as the CLI."""
    keys = [entry.key for entry in Objects.at(_session(), uri.rstrip("/")).list_objects()]
    sys.stdout.writelines(f"{key}\n" for key in keys)
    return 0 if keys else 1


def s3_command(arguments: list[str]) -> int:
    """Run `aws s3 ...`."""
    parser = argparse.ArgumentParser(prog="aws s3")
    actions = parser.add_subparsers(dest="action", required=True)
    cp = actions.add_parser("cp")
    cp.add_argument("--only-show-errors", action="store_true")
    cp.add_argument("--recursive", action="store_true")
    cp.add_argument("source")
    cp.add_argument("target")
    actions.add_parser("ls").add_argument("uri")
    options = parser.parse_args(arguments)
    if options.action == "ls":
        return show(options.uri)
    return copy(options.source, options.target, recursive=options.recursive)


def option_of(member: str) -> str:
    """The option of a member of the API.

    >>> option_of("DesiredCapacity"), option_of("logGroupName")
    ('--desired-capacity', '--log-group-name')
    """
    return "--" + re.sub(r"(?<!^)(?=[A-Z])", "-", member).lower()


def parameters(shape: Any, words: list[str]) -> Iterator[tuple[str, Any]]:
    """The members of an operation's input that options name.

    Raises:
        ValueError: the operation has no such option.
    """
    names = {option_of(name): name for name in shape.members}
    while words:
        option, *rest = words
        count = next((n for n, word in enumerate(rest) if word.startswith("--")), len(rest))
        values, words = rest[:count], rest[count:]
        positive = option.replace("--no-", "--", 1)
        if option == "--output" and values == ["json"]:
            continue
        if not values and positive in names:
            yield names[positive], positive == option
        elif option in names and values:
            yield names[option], _value(shape.members[names[option]], values)
        else:
            message = f"Unknown options: {option}"
            raise ValueError(message)


def _value(shape: Any, values: list[str]) -> Any:
    """An option's value by the API's model: text, a number, JSON, or the shorthand Name=NAME,Values=VALUE."""
    if shape.type_name != "list":
        return int(values[0]) if shape.type_name in ("integer", "long") else values[0]
    if values[0].startswith("["):
        return safe_json.loads(values[0])
    pairs = (dict(part.split("=", 1) for part in value.split(",")) for value in values)
    return [{"Name": pair["Name"], "Values": [pair["Values"]]} for pair in pairs]


def service_command(service: str, operation: str, words: list[str]) -> int:
    """Run one operation of a service, and print its answer as JSON."""
    client, method = _session().client(service), operation.replace("-", "_")
    model = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[method])
    try:
        given = dict(parameters(model.input_shape, words))
    except ValueError as problem:
        sys.stderr.write(f"aws: error: {problem}\n")
        return USAGE
    try:
        answer = getattr(client, method)(**given)
    except client.exceptions.ClientError as problem:
        sys.stderr.write(f"aws: {problem}\n")
        return REFUSED
    del answer["ResponseMetadata"]
    if answer:
        sys.stdout.write(json.dumps(answer, default=lambda moment: moment.isoformat()))
    return 0


def main(arguments: list[str]) -> int:
    """Run one command."""
    if arguments[:1] == ["s3"]:
        try:
            return s3_command(arguments[1:])
        except AwsError as problem:
            sys.stderr.write(f"fatal error: {problem}\n")
            return 1
    if tuple(arguments[:2]) not in OPERATIONS:
        sys.stderr.write(f"aws: error: the sandbox's image has no command {' '.join(arguments[:2])}\n")
        return USAGE
    return service_command(arguments[0], arguments[1], arguments[2:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
