"""The commands and what each does in a sentence: `slipway --help` reads this and none of them.

A test holds every sentence to the first of its command's own help.
"""

from collections.abc import Mapping

SUMMARIES: Mapping[str, str] = {
    "init": "Write a plan file that works as it is, every other key in it as a comment.",
    "schema": "Print the JSON Schema of a plan file, or of a document that commands print with --json.",
    "plan": "Total dollars to finish, for every way to buy the same job. Calls nothing and spends nothing.",
    "quote": "One candidate: lines by group, safety policies, what the gate says; assumptions by --explain.",
    "compare": (
        "The option matrix of one job, and GPU against Trainium with the port. Calls nothing and spends nothing."
    ),
    "portfolio": (
        "Several plans, each routed to its best option, with one total a month. Calls nothing and spends nothing."
    ),
    "commit": ("Savings Plans and reservations for several plans: what to commit to, what it saves, what strands it."),
    "diff": (
        "What a change of plans does to their totals, by plan and line, and why. Calls nothing and spends nothing."
    ),
    "render": "Write the files a plan would deploy and submit, and execute nothing.",
    "deploy": "Price a plan and deploy its cluster without a job, or its endpoint. --sandbox tries it on this machine.",
    "launch": (
        "Price a plan, deploy its cluster, run its job to the end, and report. Nothing starts without an allowed quote."
    ),
    "down": (
        "Remove a cluster and its network, or an endpoint; keep checkpoints, and say what stays and what that costs."
    ),
    "status": "Ask the cluster for the state of a plan's newest run: its job, attempts, steps, checkpoints.",
    "logs": "Print the logs of a plan's newest run, attempt by attempt.",
    "outputs": "List the files that a job has stored as its outputs (`run.outputs`), or bring them here.",
    "attach": "Follow the job of a plan's newest run again, to its end; Ctrl-C leaves it running. Exit 6 if it failed.",
    "ssh": "Open a shell on a node that a plan's job runs on, the first without NODE. No port is opened for it.",
    "exec": (
        "Run a command on a node that a plan's job runs on, the first without --node, and end with its exit code."
    ),
    "tunnel": (
        "Lead a port of this machine to a port of a node (TensorBoard, Jupyter), until Ctrl-C. Nobody else can use it."
    ),
    "cancel": "Cancel the job of a plan's newest run. Its checkpoints stay, and so does its cluster.",
    "report": "Show the newest run of a plan: attempts, hours, dollars used, and what was checked.",
    "runs": "List the runs under .slipway in this folder, newest first.",
    "ledger": "Every run of this folder, or of a shared bucket: quoted, used, billed, and what a million tokens cost.",
    "spike": (
        "A short measured run of the plan's own command on each kind of machine, priced first and gated as any launch."
    ),
    "accuracy": "Quoted against measured, of the runs of this folder: tokens a second, hours, dollars.",
    "doctor": (
        "Ask the account what a launch needs of it: rights, quotas, capacity, names. Makes nothing and spends nothing."
    ),
    "capacity": (
        "Capacity Blocks, training plans, reservations, spot: what can be had now, and the total to finish with each."
    ),
    "cost": (
        "Every stack of Slipway's in the account: who, since when, dollars an hour now and so far, and when it ends."
    ),
    "policies": (
        "Write the policies of whoever deploys and of CloudFormation, and print the commands that put them in place."
    ),
    "cdk": (
        "Run the CDK CLI with Slipway's app: slipway cdk -- diff -c plan=plan.yaml. It asks no gate; -c gate=1 does."
    ),
    "sandbox": "An embedded AWS that stays: start it, look at it, end it.",
    "checkpoints": "Checkpoints of a job: list, verify, prune, restore them.",
    "prices": "Known prices: show them, compare two days, read fresh ones from AWS.",
    "endpoint": "A deployed endpoint: its URL, a token, one request, a load test.",
}
"""By the name of the command, which is that of its module in this package; groups of commands come last."""
