"""All sources that can announce an end, in one queue: signals, instance metadata, a date, the job's other nodes."""

import http.client
import queue
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from types import FrameType
from urllib.parse import urlsplit

from launcher.agent.events import EventLog
from launcher.agent.job import JobSpec
from launcher.agent.node.drain import drain_node
from launcher.agent.node.notice import (
    CANCEL,
    CAPACITY_END,
    LOST,
    POD_END,
    SIGNAL,
    SPOT,
    TIME_LIMIT,
    Notice,
    rebalance_notice,
    spot_notice,
)

DEFAULT_ENDPOINT = "http://169.254.169.254"
ENDPOINT_VARIABLE = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
"""The variable of the AWS SDKs; it also selects an emulator."""

_TOKEN_PATH = "/latest/api/token"  # noqa: S105  a path
_ACTION_PATH = "/latest/meta-data/spot/instance-action"
_REBALANCE_PATH = "/latest/meta-data/events/recommendations/rebalance"
_TIMEOUT_S = 2.0
_BODY_BYTES = 4096
_OK, _UNAUTHORIZED, _NOT_FOUND = 200, 401, 404
SIGNALS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""The signals that count as a notice. The program blocks them at its start until `listen` unblocks them."""
_LEFT_AT_CAPACITY_END_S = 900.0
"""Seconds from the last checkpoint to the first instance that AWS ends: `leave_before_s` adds them to AWS's lead."""


def endpoint(environment: Mapping[str, str]) -> str:
    """Base URL of the metadata service."""
    return environment.get(ENDPOINT_VARIABLE) or DEFAULT_ENDPOINT


class _NoticeError(Exception):
    """The service did not report whether a notice exists; each `kind` is logged once, with its first `detail`."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(kind)
        self.kind = kind
        self.detail = detail


class SpotWatch(threading.Thread):
    """Polls every few seconds until a notice arrives. No other response of the service, and no outage, stops it."""

    def __init__(
        self,
        base_url: str,
        *,
        poll_s: float,
        on_notice: Callable[[Notice], None],
        on_problem: Callable[[str], None],
    ) -> None:
        """`on_notice` receives the notice once, and before it a rebalance recommendation if one arrives."""
        super().__init__(name="spot-watch", daemon=True)
        self._url = base_url
        self._poll_s = poll_s
        self._on_notice = on_notice
        self._on_problem = on_problem
        self._token = ""
        self._recommended = False
        self._reported: set[str] = set()
        self._over = threading.Event()

    def stop(self) -> None:
        """End the thread after the current request."""
        self._over.set()

    def run(self) -> None:
        """Poll until a notice arrives."""
        while not self._over.is_set():
            try:
                notice = self._fetch(_ACTION_PATH, lambda body, now: spot_notice(body, now=now))
                if notice is None and not self._recommended:
                    notice = self._fetch(_REBALANCE_PATH, lambda body, _: rebalance_notice(body))
            except _NoticeError as error:
                self._report(error)
            else:
                if notice is not None:
                    self._on_notice(notice)
                    if notice.ends:
                        return
                    self._recommended = True
            self._over.wait(self._poll_s)

    def _fetch(self, path: str, parse: Callable[[str, datetime], Notice]) -> Notice | None:
        """The notice at a path, if one exists; parsed with the time of the service."""
        try:
            if not self._token:
                self._token = self._new_token()
            status, body, now = self._request("GET", path, {"X-aws-ec2-metadata-token": self._token})
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._token = ""  # one that no header can hold would be refused for as long as it is kept
            raise _NoticeError(f"the metadata service does not answer: {type(error).__name__}", str(error)) from error
        if status == _NOT_FOUND:
            return None
        if status == _UNAUTHORIZED:
            self._token = ""
            raise _NoticeError("the metadata service refused its token; requesting a new one")
        if status != _OK:
            raise _NoticeError(f"the metadata service answered {status}")
        try:
            return parse(body, now)
        except ValueError as error:
            raise _NoticeError("the metadata service returned an invalid notice", str(error)) from error

    def _new_token(self) -> str:
        # Six hours, the longest that IMDSv2 gives.
        status, token, _ = self._request("PUT", _TOKEN_PATH, {"X-aws-ec2-metadata-token-ttl-seconds": "21600"})
        if status != _OK:
            raise _NoticeError(f"no token: the metadata service answered {status}")
        return token

    def _request(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str, datetime]:
        parts = urlsplit(self._url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=_TIMEOUT_S)
        try:
            connection.request(method, parts.path.rstrip("/") + path, headers=headers)
            response = connection.getresponse()
            now = _date(response.getheader("Date"))
            return response.status, response.read(_BODY_BYTES).decode("latin-1").strip(), now
        finally:
            connection.close()

    def _report(self, problem: _NoticeError) -> None:
        if problem.kind not in self._reported:
            self._reported.add(problem.kind)
            self._on_problem(f"{problem.kind}: {problem.detail}" if problem.detail else problem.kind)


def _date(text: str | None) -> datetime:
    """The time by the service's own clock, to which its notices refer; by the node's clock if the service has none."""
    try:
        date = parsedate_to_datetime(text or "")
        return date.astimezone(timezone.utc) if date.tzinfo is not None else date.replace(tzinfo=timezone.utc)
    except (OverflowError, TypeError, ValueError):
        return datetime.now(timezone.utc)


def react_to_notice(notice: Notice, *, drain: bool, log: EventLog) -> None:
    """Log a notice; drain the node if this node ends, so that the requeued job does not start on it again."""
    log.append(
        "notice" if notice.ends else "rebalance-recommended",
        source=notice.source,
        detail=notice.detail,
        at=notice.at,
        left_s=notice.left_s,
        **({} if notice.node is None else {"from_node": notice.node}),
    )
    if not drain or notice.node is not None or notice.source not in (SPOT, CAPACITY_END):
        return
    drain_and_log(f"slipway: {notice.source} {notice.detail} at {notice.at or 'once'}", log)


def drain_and_log(reason: str, log: EventLog) -> None:
    """Drain the node, and log whether Slurm did it."""
    failure = drain_node(reason)
    if failure:
        log.append("drain-failed", error=failure)
    else:
        log.append("drained")


class Notices:
    """Notices in the order of their arrival."""

    def __init__(self, *, pod_grace_s: float | None = None, pod_cancelled: Callable[[], bool] = lambda: False) -> None:
        """Watch nothing yet.

        Args:
            pod_grace_s: in a pod, the seconds from SIGTERM to its end; None: SIGTERM is a cancel.
            pod_cancelled: whether SIGTERM to this pod is a cancel; it may ask the store.
        """
        self._pod_grace_s = pod_grace_s
        self._pod_cancelled = pod_cancelled
        self._queue: queue.SimpleQueue[Notice] = queue.SimpleQueue()
        self._ends = False
        self._watch: SpotWatch | None = None
        self._timers: list[threading.Timer] = []

    def listen(self) -> None:
        """Handle signals to this process as notices. Only the main thread may call this."""
        for number in SIGNALS:
            # nohup, and a shell's background, ask for a signal to be ignored before the program starts.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._on_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def watch_metadata(self, environment: Mapping[str, str], *, poll_s: float, log: EventLog) -> None:
        """Poll the instance metadata every `poll_s` seconds, and log errors."""
        self._watch = SpotWatch(
            endpoint(environment),
            poll_s=poll_s,
            on_notice=self.put,
            on_problem=lambda text: log.append("metadata-error", error=text),
        )
        self._watch.start()

    def watch_end(self, leaves_at: datetime, *, ends_at: str) -> None:
        """Add a notice at a date, immediately if the date has passed."""
        notice = Notice(source=CAPACITY_END, detail="the capacity ends", at=ends_at, left_s=_LEFT_AT_CAPACITY_END_S)
        wait_s = (leaves_at - datetime.now(timezone.utc)).total_seconds()
        if wait_s <= 0:
            self.put(notice)
            return
        self._put_after(wait_s, notice)

    def watch_ends(self, spec: JobSpec, *, counts_limit: bool) -> None:
        """Add notices when the capacity of a job ends and, with `counts_limit`, when its time limit is over."""
        leaves_at = spec.leaves_at()
        if leaves_at is not None and spec.ends_at is not None:
            self.watch_end(leaves_at, ends_at=spec.ends_at)
        if spec.save_after_s is not None and counts_limit:
            self._put_after(spec.save_after_s, Notice(source=TIME_LIMIT, detail="run.time_limit_h"))

    def _put_after(self, wait_s: float, notice: Notice) -> None:
        timer = threading.Timer(min(wait_s, threading.TIMEOUT_MAX), self.put, (notice,))
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def stop(self) -> None:
        """Stop watching."""
        if self._watch is not None:
            self._watch.stop()
        for timer in self._timers:
            timer.cancel()

    def put(self, notice: Notice) -> None:
        """Add a notice."""
        # A signal handler calls this: a flag and SimpleQueue.put are safe there, an Event's lock would not be.
        self._ends = self._ends or notice.ends
        self._queue.put(notice)

    def pending(self) -> bool:
        """Whether a notice that ends the attempt has arrived."""
        return self._ends

    def next(self, *, wait_s: float) -> Notice | None:
        """The next notice, or None if none came within `wait_s` seconds."""
        try:
            notice = self._queue.get(block=wait_s > 0, timeout=wait_s or None)
        except queue.Empty:
            return None
        # Not in the signal handler, which must not ask the store.
        if notice.source == POD_END and notice.node is None and self._pod_cancelled():
            return replace(notice, source=CANCEL)
        return notice

    def next_end(self) -> Notice | None:
        """The next notice that ends the attempt, if one has arrived; otherwise recommendations stay in the queue."""
        advice = []
        while (notice := self.next(wait_s=0)) is not None:
            if notice.ends:
                return notice
            advice.append(notice)
        for announced in advice:
            self._queue.put(announced)
        return None

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if number == signal.SIGTERM and self._pod_grace_s is not None:
            self.put(Notice(source=POD_END, detail=name, left_s=self._pod_grace_s))
            return
        if number == signal.SIGUSR2:
            self.put(Notice(source=LOST, detail="another node of the job is gone", left_s=self._pod_grace_s))
            return
        self.put(Notice(source=SIGNAL if number == signal.SIGUSR1 else CANCEL, detail=name))
