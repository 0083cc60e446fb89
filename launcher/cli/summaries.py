"""The commands and what each does in a sentence: `slipway --help` reads this and none of them.

A test holds every sentence to the first of its command's own help.
"""

from collections.abc import Mapping

SUMMARIES: Mapping[str, str] = {
    "init": "Write a plan file that works unchanged, with every other key as a comment.",
    "schema": "Print the JSON Schema of a plan file, or of a document that commands print with --json.",
    "plan": "Total dollars to finish a job, for every purchase option. Calls nothing and spends nothing.",
    "quote": "Quote one candidate: cost lines, safety policies, gate result; --explain adds assumptions.",
    "compare": (
        "Compare all options of one job, and GPU with Trainium including the port. Calls nothing and spends nothing."
    ),
    "portfolio": (
        "The best option for each of several plans, with one monthly total. Calls nothing and spends nothing."
    ),
    "commit": ("Savings Plans and reservations for several plans: what to buy, what it saves, what its risks are."),
    "diff": (
        "How a change of plans changes their totals, by plan and line, and why. Calls nothing and spends nothing."
    ),
    "render": "Write the files that a plan would deploy and submit. Executes nothing.",
    "deploy": "Price a plan and deploy its cluster without a job, or its endpoint. --sandbox uses an emulated AWS.",
    "launch": ("Price a plan, deploy its cluster, run its job to the end, and report. The gate must allow the quote."),
    "down": ("Remove a cluster and its network, or an endpoint. Keeps checkpoints; lists what stays and its cost."),
    "status": "Show the state of a plan's newest run: its job, attempts, steps, checkpoints.",
    "logs": "Print the logs of a plan's newest run, attempt by attempt.",
    "outputs": "List the files that a job stored as its outputs (`run.outputs`), or download them.",
    "attach": "Follow the job of a plan's newest run again, to its end. Ctrl-C leaves it running; exit 6 if it failed.",
    "ssh": "Open a shell on a node of a plan's running job (default: the first). Opens no port.",
    "exec": ("Run a command on a node of a plan's running job (default: the first), and exit with its exit code."),
    "tunnel": ("Forward a local port to a port of a node (TensorBoard, Jupyter) until Ctrl-C. Only you can use it."),
    "cancel": "Cancel the job of a plan's newest run. Keeps its checkpoints and its cluster.",
    "report": "Show the newest run of a plan: attempts, hours, dollars used, and what was checked.",
    "runs": "List the runs under .slipway in this folder, newest first.",
    "ledger": "Every run of this folder, or of a shared bucket: dollars quoted, used, billed, and per million tokens.",
    "spike": ("Measure the plan's own command in a short run on each instance type. Priced and gated like any launch."),
    "accuracy": "Compare quotes with the measured runs of this folder: tokens per second, hours, dollars.",
    "doctor": (
        "Check the account for a launch: permissions, quotas, capacity, names. Creates nothing and spends nothing."
    ),
    "capacity": (
        "Available Capacity Blocks, training plans, reservations and spot, and the total to finish with each."
    ),
    "cost": ("Every Slipway stack in the account: owner, start, dollars per hour, dollars so far, and end."),
    "policies": (
        "Write the IAM policies of the deployer and of CloudFormation, and print the commands that install them."
    ),
    "cdk": (
        "Run the CDK CLI with Slipway's app: slipway cdk -- diff -c plan=plan.yaml. Only -c gate=1 checks the gate."
    ),
    "sandbox": "Start, show and stop an emulated AWS that keeps running.",
    "checkpoints": "List, verify, prune and restore the checkpoints of a job.",
    "prices": "Show the known prices, compare two days, read current prices from AWS.",
    "endpoint": "Use a deployed endpoint: its URL, a token, one request, a load test.",
}
"""By the name of the command, which is that of its module in this package; groups of commands come last."""
