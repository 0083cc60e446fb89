"""A trainer that writes PyTorch distributed checkpoints to S3 itself: shards first, `.metadata` last."""

TRAINER = """
import os, signal, sys, time
from pathlib import Path
import boto3
from botocore.config import Config
steps, pause, sample = int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
stop = []
signal.signal(signal.SIGUSR1, lambda *_: stop.append(1))
s3 = boto3.client("s3", config=Config(s3={"addressing_style": "path"}))
bucket, _, prefix = os.environ["SLIPWAY_CHECKPOINT_URI"].removeprefix("s3://").partition("/")
resume = os.environ["SLIPWAY_RESUME_DIR"]
step = int(resume.rpartition("-")[2]) if resume else 0
print("start", resume or "anew", flush=True)
while step < steps and not stop:
    time.sleep(pause)
    step += 1
    for path in sorted(sample.iterdir(), key=lambda path: (path.name == ".metadata", path.name)):
        s3.put_object(Bucket=bucket, Key=f"{prefix}/step-{step}/{path.name}", Body=path.read_bytes())
    print("step", step, flush=True)
sys.exit(85 if stop else 0)
"""
