"""Files of policies and the commands that put them in place: `slipway policies`, slipway.policies/1."""

from pathlib import Path

from launcher.records.codec import Json
from launcher.rendering.policies import MOST_CHARACTERS, RenderedPolicy, create_command
from launcher.workflow.deploy.policies import AccountPolicies


def policies_lines(made: AccountPolicies, folder: Path) -> list[str]:
    """The files with what each holds, then the commands."""
    width = max(len(policy.file) for policy in made.every)
    lines = [
        f"  policies for {made.account.id} in {folder}; IAM takes {MOST_CHARACTERS:,} characters each",
        "",
    ]
    lines += [f"  {policy.file:<{width}}  {policy.characters:>5,}  {policy.holds}" for policy in made.every]
    return [*lines, "", "  commands, for an administrator of the account:", "", *commands(made, folder)]


def commands(made: AccountPolicies, folder: Path) -> list[str]:
    """The commands, in order."""
    attach = [
        f"aws iam attach-role-policy --role-name {name} --policy-arn {made.account.policy_arn(each.name)}"
        for name, each in made.roles.items()
    ]
    create = [create_command(policy.name, str(folder / policy.file)) for policy in _created(made)]
    return [*create, *attach, made.bootstrap]


def _created(made: AccountPolicies) -> list[RenderedPolicy]:
    own = made.account.boundary_arn in (None, made.account.policy_arn("boundary"))
    return [policy for policy in made.every if policy is not made.boundary or own]


def policies_next(made: AccountPolicies) -> str:
    """What to do beside the commands."""
    arns = "\n    ".join(made.account.policy_arn(policy.name) for policy in made.person)
    person = f"\n  attach to the user who runs slipway:\n    {arns}"
    if made.account.boundary_arn is not None:
        return f"{person}\n  plans name the boundary: security.permissions_boundary_arn: {made.account.boundary_arn}"
    arn = made.account.policy_arn("boundary")
    return (
        f"{person}\n"
        "  advice: without a permissions boundary a deployer can make a role that may do anything. With it not:\n"
        f"  run this again with --boundary {arn}\n"
        f"  and put security: {{permissions_boundary_arn: {arn}}} into every plan"
    )


def _whose(made: AccountPolicies, policy: RenderedPolicy) -> str:
    if policy in made.person:
        return "person"
    if policy in made.roles.values():
        return "role"
    return "boundary" if policy is made.boundary else "cloudformation"


def document(made: AccountPolicies, folder: Path) -> Json:
    """slipway.policies/1: `boundary_arn` is the one in use; `commands` are in the order they are run."""
    return {
        "schema": "slipway.policies/1",
        "account": made.account.id,
        "boundary_arn": made.account.boundary_arn,
        "policies": [
            {
                "name": policy.file.removesuffix(".json"),
                "arn": made.account.policy_arn(policy.name),
                "file": str(folder / policy.file),
                "characters": policy.characters,
                "for": _whose(made, policy),
                "holds": policy.holds,
            }
            for policy in made.every
        ],
        "commands": commands(made, folder),
    }
