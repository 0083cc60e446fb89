"""Copies of the examples with start days in the future and a trainer that can wait."""

import json
import re
import shutil
from datetime import UTC, date, datetime, timedelta

from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from launcher.workflow.run.launch import launch_quote
from launcher.workflow.run.launch_options import LaunchOptions
from tests.plans import EXAMPLES

DAY = re.compile(r"(_at: )(\d{4}-\d\d-\d\d)T")
WORKDIR = re.compile(r"(workdir: )([^\s}]+)")
TO_COME = timedelta(days=10)
TRAINER_STEPS = 180
TRAINER_WORDS = ["--steps", str(TRAINER_STEPS), "--batch", "4", "--context", "32"]
"""Options of examples/tiny_gpt to compare an interrupted run with an uninterrupted one: an eighth of its work."""
SAVING = [*TRAINER_WORDS, "--every", "10", "--log-every", "10"]
PATIENT = """
import os, sys, time
import train

class Stop(train.Stop):
    looks = 0

    def asked(self):
        self.looks += 1
        while self.looks == 100 and not os.environ["SLIPWAY_RESUME_DIR"] and not super().asked():
            time.sleep(0.05)
        return super().asked()

train.Stop = Stop
sys.exit(train.main())
"""
"""The copies' trainer, which waits near its fiftieth step until it is interrupted, on hosts of any speed."""


def patient_work(root):
    """A copy of the examples' work folder with a trainer that waits: patient.py."""
    work = shutil.copytree(EXAMPLES / "tiny_gpt", root / "tiny_gpt")
    (work / "patient.py").write_text(PATIENT)
    return work


def patient_changes(root):
    """The text changes that make a copy of an example start that trainer."""
    arguments = ", ".join([*(word if word.startswith("-") else json.dumps(word) for word in SAVING)])
    there = json.dumps(str((EXAMPLES / "tiny_gpt").resolve())), json.dumps(str(patient_work(root)))
    return [('train.py, --steps, "180", --every, "30"', f"patient.py, {arguments}"), there]


def copied(path, root, changes=()):
    """A copy of an example in another folder; `changes` has pairs of old and new text."""
    text = path.read_text()
    days = [date.fromisoformat(match[2]) for match in DAY.finditer(text)]
    first = datetime.now(UTC).date() + TO_COME
    text = DAY.sub(lambda match: f"{match[1]}{first + (date.fromisoformat(match[2]) - days[0])}T", text)
    text = WORKDIR.sub(lambda match: match[1] + json.dumps(str((path.parent / match[2]).resolve())), text)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    copy = root / path.name
    copy.write_text(text)
    return copy


def launched(name, root):
    """Launch an example into a separate sandbox; return its folder, its report, and its messages."""
    plan = copied(EXAMPLES / name, root, patient_changes(root))
    priced = price(plan, datetime.now(UTC), PriceOptions(any_age=True))
    rank, quoted = pick(priced, None)
    messages = []
    options = {"root": root, "sandbox": True, "scheduler": "local", "interrupt_after_s": 0.1}
    folder, report = launch_quote(
        priced, rank, quoted, LaunchOptions(notify=messages.append, progress=lambda _: None, **options)
    )
    return folder, report, messages
