"""How long a node has been idle, from counters in the format of the kernel."""

import pytest

from launcher.agent.node.stillness import Stillness

NET = """Inter-|   Receive
 face |bytes packets
    lo: {lo} 1 0 0 0 0 0 0 {lo} 1 0 0 0 0 0 0
  eth0: {rx} 1 0 0 0 0 0 0 {tx} 1 0 0 0 0 0 0
"""


@pytest.fixture
def node_counters(tmp_path):
    """Write a node's counters: ticks of a hundredth of a second, and bytes."""
    (tmp_path / "net").mkdir()
    adapter = tmp_path / "efa" / "rdmap0" / "ports" / "1" / "hw_counters"
    adapter.mkdir(parents=True)

    def write(*, user=0, idle=0, rx=0, lo=0, efa=0):
        (tmp_path / "stat").write_text(f"cpu  {user} 0 0 {idle} {idle} 0 0 0 0 0\ncpu0 1 2 3\n")
        (tmp_path / "net" / "dev").write_text(NET.format(lo=lo, rx=rx, tx=0))
        (adapter / "rdma_read_bytes").write_text(f"{efa}\n")

    write()
    return tmp_path, write


def still(node, **after):
    """Seconds of stillness after five minutes, of which the counters show so much."""
    folder, write = node
    watching = Stillness(0.0, proc=folder, adapters=folder / "efa")
    write(**after)
    return watching.still_s(300.0)


def test_idle_node_is_still(node_counters):
    assert still(node_counters, user=29_000, idle=5_000_000, rx=299_000_000, lo=10**12) == 300.0


@pytest.mark.parametrize("work", [{"user": 31_000}, {"rx": 301_000_000}, {"efa": 301_000_000}])
def test_a_processor_a_network_or_an_adapter_at_work_is_none(node_counters, work):
    assert still(node_counters, **work) == 0.0


def test_step_restarts_the_still_time(node_counters):
    folder, _ = node_counters
    watching = Stillness(0.0, proc=folder, adapters=folder / "efa")
    watching.move(200.0)
    assert watching.still_s(300.0) == 100.0


@pytest.mark.parametrize("text", ["", "cpu\n", "cpu a b c d e f g h\n"])
def test_unreadable_counters_count_as_work(node_counters, text):
    folder, _ = node_counters
    watching = Stillness(0.0, proc=folder, adapters=folder / "efa")
    (folder / "stat").write_text(text)
    assert watching.still_s(300.0) == 0.0
