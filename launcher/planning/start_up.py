"""Hours until a node works, as assumed without the user's own runs: they are paid for without progress."""

from launcher.model.money import Range

WITHIN = 1.645
"""Low and high of a measurement count as the 5 % and 95 % points of a normal distribution."""
BOOT_H = 0.15
"""From launch to the first step on a new node, 9 minutes, paid for without progress: from memory, not measured."""
BOOT_RANGE_H = Range(low=BOOT_H / 2, mid=BOOT_H, high=BOOT_H * 2)
"""Half and twice BOOT_H, 4.5 to 18 minutes, as the 5 % and 95 % points: a judgement."""
RESTART_H = 0.25
"""From the loss of the nodes to the first step after the restore, 15 minutes: a choice within the 5 to 30 minutes of
published restarts. The wait for spot capacity is not included. All of it is billed, as surviving nodes are."""
RESTART_RANGE_H = Range(low=5 / 60, mid=RESTART_H, high=0.5)
