"""A private Slurm whose daemons can be killed one by one."""

from launcher.sandbox import processes
from launcher.sandbox.slurm.daemons import PrivateSlurm
from tests.waiting import until

PATIENCE_S = 240.0


class Slurm(PrivateSlurm):
    """Loses daemons one by one."""

    def kill_slurmd(self, name):
        """The daemon of a node and nothing else: its job steps go on."""
        daemon = self._daemons.pop(name)
        daemon.kill()
        daemon.wait()

    def restart_slurmd(self, name):
        """The daemon comes back on the same machine, with what it remembers, and ends the steps of requeued jobs."""
        self._start_slurmd(name)
        self.settle(name)
        until(lambda: not self.step_daemons(name))

    def settle(self, name):
        """Wait until a node is idle; Slurm takes back one that was set down and still answers."""
        until(lambda: self.run("sinfo", "--noheader", f"--nodes={name}", "--format=%T").strip() == "idle")

    def step_daemons(self, name):
        """The slurmstepds of a node, of the batch script and of the step alike."""
        daemon = self._daemons[name].pid
        return processes.holding({self.places.log(name).resolve()}) - {daemon}
