"""Starts agents without waiting for their imports: a process that has loaded everything forks one for every request.

Run as a file. A line of JSON on standard input is a request, {"arguments", "environment", "folder", "log",
"status"}; the answer is the id of the new process. Its exit status, as `waitpid` gives it, is written to the file
`status` when it has ended. What runs in it is the agent's `main` in a process of its own, which a SIGKILL ends as it
ends any other. Its nodes beat, look and are missed `FASTER` times as fast as those of a job.
"""

import gc
import json
import os
import signal
import sys
from pathlib import Path

import botocore.session

# Loaded here once and for all; the program itself loads them when it has read its job.
from launcher.agent import session
from launcher.agent.checkpoint import dcp, quorum, resume, uploader
from launcher.agent.node import peers
from launcher.agent.program import main
from launcher.aws.session import share_descriptions

FASTER = 2.5
WAITS = (
    (peers, "BEAT_S"),
    (peers, "LOST_AFTER_S"),
    (peers, "_POLL_S"),
    (peers, "_GATHER_S"),
    (peers, "_LOST_POLL_S"),
    (quorum, "BEAT_S"),
    (uploader, "_COMMIT_POLL_S"),
    (session, "_COMMIT_POLL_S"),
    (dcp, "_POLL_S"),
    (resume, "_PAUSE_S"),
)
children = {}


def reap(*_):
    """Write down how children ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid in children:
            path = Path(children.pop(pid))
            path.with_suffix(".new").write_text(str(status))
            path.with_suffix(".new").rename(path)


def become(request):
    """Be the agent of a request."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    log = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for descriptor, target in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
        os.dup2(descriptor, target)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    code = main(request["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    for module, name in WAITS:
        setattr(module, name, getattr(module, name) / FASTER)
    share_descriptions()
    # S3's descriptions, read for all forks.
    s3 = botocore.session.get_session().create_client("s3", region_name="us-east-1")
    s3.get_paginator("list_objects_v2")
    gc.freeze()
    signal.signal(signal.SIGCHLD, reap)
    for line in sys.stdin:
        request = json.loads(line)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        child = os.fork()
        if child == 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            become(request)
        children[child] = request["status"]
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        print(child, flush=True)  # noqa: T201  the answer
