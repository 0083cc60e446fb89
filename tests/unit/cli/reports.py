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
