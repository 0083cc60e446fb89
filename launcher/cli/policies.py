"""`slipway policies`: the IAM policies of a deployment, and the commands that put them into an account."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli import completion, options, output
from launcher.cli.option_values import region_name
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.model.kinds import S3_FORM, s3_fix

if TYPE_CHECKING:
    from launcher.workflow.deploy.policies import AccountPolicies

DataBuckets = Annotated[
    list[str] | None,
    typer.Option("--data-bucket", metavar="NAME", help="Bucket with training data that a file system imports."),
]
JobBuckets = Annotated[
    list[str] | None, typer.Option("--bucket", metavar="NAME", help="Bucket that jobs use: the boundary allows it.")
]
Secrets = Annotated[
    list[str] | None,
    typer.Option("--secret", metavar="ARN", help="Secret or parameter that jobs read: the boundary allows it."),
]


Exports = Annotated[
    list[str] | None,
    typer.Option("--export", metavar="PLACE", help="Billing export, s3://, that report --billed reads."),
]
HyperPods = Annotated[
    list[str] | None,
    typer.Option(
        "--hyperpod", metavar="ARN", help="HyperPod cluster whose nodes users may enter. Default: FILE's regions."
    ),
]
_HYPERPOD = re.compile(r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:cluster/[a-z0-9]+")

BootstrapRegion = Annotated[
    str,
    typer.Option(
        "--region",
        parser=region_name,
        metavar="REGION",
        help="The region of the CDK bootstrap.",
        autocompletion=completion.regions,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("policies")(policies)


def policies(
    *,
    account: Annotated[str, typer.Option("--account", metavar="ID", help="The account's id (12 digits).")],
    region: BootstrapRegion,
    folder: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="The folder for the files.")],
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="A plan file: write only its target's policies, with its boundary.",
            autocompletion=completion.plan_files,
        ),
    ] = None,
    qualifier: Annotated[
        str | None,
        typer.Option("--qualifier", help="Qualifier of the CDK bootstrap. Default: the plan's, else slipway."),
    ] = None,
    boundary: Annotated[
        str | None,
        typer.Option("--boundary", metavar="ARN", help="Permissions boundary of every role."),
    ] = None,
    data_bucket: DataBuckets = None,
    bucket: JobBuckets = None,
    secret: Secrets = None,
    export: Exports = None,
    hyperpod: HyperPods = None,
    as_json: options.Json = False,
) -> None:
    """Write the IAM policies of the deployer and of CloudFormation, and print the commands that install them."""
    from launcher import plan_file
    from launcher.answers.policies import document, policies_lines, policies_next
    from launcher.workflow.deploy.policies import PolicyRequest, policies_of

    _refuse_malformed(account, hyperpod or [], export or [])
    request = PolicyRequest(
        account=account,
        region=region,
        qualifier=qualifier,
        boundary_arn=boundary,
        buckets=tuple(data_bucket or ()),
        job_buckets=tuple(bucket or ()),
        secrets=tuple(secret or ()),
        exports=tuple(export or ()),
        hyperpods=tuple(hyperpod or ()),
    )
    rendered = policies_of(request, None if file is None else plan_file.load(file))
    _write(folder, rendered)
    if as_json:
        return output.document(document(rendered, folder))
    output.result(policies_lines(rendered, folder))
    return output.say(*policies_next(rendered))


def _write(folder: Path, policies: "AccountPolicies") -> None:
    from launcher.records.run_folder import write_whole

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for policy in policies.every:
            write_whole(folder / policy.file, policy.text, shared=True)
    except OSError as problem:
        hint = "-o FOLDER names a new or a writable folder"
        raise ImpossibleError(f"cannot write to {folder}: {problem.strerror}", hint=hint) from problem


def _refuse_malformed(account: str, hyperpods: list[str], exports: list[str]) -> None:
    for place in exports:
        # A policy reads * and ? as patterns.
        if not re.fullmatch(S3_FORM, place) or {"*", "?"} & {*place}:
            hint = "a file or folder on this computer needs no policy; in S3: --export s3://BUCKET/PREFIX"
            if place.startswith("s3://") and not {"*", "?"} & {*place}:
                hint = s3_fix(place)
            raise UnreadableInputError(f"--export: expected a place in S3, got {place}", hint=hint)
    for arn in hyperpods:
        if not _HYPERPOD.fullmatch(arn):
            hint = "the output ClusterArn of the cluster's stack: arn:aws:sagemaker:REGION:ACCOUNT:cluster/ID"
            raise UnreadableInputError(f"--hyperpod: expected the ARN of a HyperPod cluster, got {arn}", hint=hint)
    if not re.fullmatch(r"\d{12}", account):
        hint = "aws sts get-caller-identity --query Account --output text"
        raise UnreadableInputError(f"--account: expected 12 digits, got {account!r}", hint=hint)
