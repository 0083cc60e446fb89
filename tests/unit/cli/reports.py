"""A report of a run."""

REPORT = {
    "schema": "slipway.report/1",
    "name": "tiny",
    "status": "succeeded",
    "scheduler": "local",
    "simulated": True,
    "attempts": [
        {
            "started_at": "2026-11-20T12:00:00+00:00",
            "ended_at": "2026-11-20T12:01:00+00:00",
            "exit_code": 0,
            "ended_by": "completed",
            "resumed_from_step": 0,
            "last_step": 60,
        }
    ],
    "quoted": {"usd": "12.5", "hours": 0.5, "usd_per_hour": "25", "prices_as_of": "2026-11-20"},
    "actual": {"hours": 0.0167, "usd_at_quoted_rate": "0.4167"},
    "stacks": [],
    "verified_resources": [],
    "not_emulated": [],
}


QUOTE = {
    "digest": "d" * 64,
    "target": "parallelcluster",
    "instance_type": "trn1.32xlarge",
    "accelerator": "trainium1",
    "accelerators": 32,
    "nodes": 2,
    "region": "us-east-2",
    "az_id": "use2-az1",
    "purchase_option": "spot",
    "serving": None,
    "components": [],
    "usd": {"low": "180", "mid": "220", "high": "300"},
    "usd_per_hour": "40",
    "hours": {"low": 4.0, "mid": 5.0, "high": 7.0},
    "training": {
        "tokens_per_s": {"low": 50_000.0, "mid": 60_000.0, "high": 70_000.0},
        "mfu": {"low": 0.35, "mid": 0.42, "high": 0.49},
    },
    "spot": {"interruptions_expected": 0.8, "checkpoint_interval_s": 900},
}
