# ruff: noqa: INP001, T201 - one file of a job folder, whose output is its result
"""All-reduce over every rank of a torchrun: checks whether the result is correct, and how fast it is.

    torchrun --nproc-per-node=8 preflight.py --minimum-gb-s 100 [--backend gloo --largest-mib 16]

Prints time, algorithm bandwidth and bus bandwidth for sizes from 1 MiB, each eight times the previous one. Bus
bandwidth is 2 (n - 1) / n times bytes over seconds, as in NVIDIA's nccl-tests (doc/PERFORMANCE.md). Exit 1: a wrong
sum, or less than the minimum at the largest size.
"""

import argparse
import os
import sys
import time

import torch
import torch.distributed as dist

MIB = 1024 * 1024
WARM_UP, TIMED = 5, 20


def main() -> int:
    """Measure, and return 1 if a result is wrong or too slow."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minimum-gb-s", type=float, default=0.0)
    parser.add_argument("--backend", default="nccl")
    parser.add_argument("--largest-mib", type=int, default=1024)
    options = parser.parse_args()
    device = torch.device("cpu")
    if options.backend == "nccl":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group(options.backend)
    try:
        return judge(device, options.largest_mib, options.minimum_gb_s)
    finally:
        dist.destroy_process_group()


def judge(device: torch.device, largest_mib: int, minimum_gb_s: float) -> int:
    """Measure every size; 0 if sums are right and the largest size is fast enough."""
    first, bus_gb_s, mib = dist.get_rank() == 0, 0.0, 1
    if first:
        print(f"preflight: {dist.get_world_size()} ranks\n{'MiB':>6} {'us':>10} {'alg GB/s':>9} {'bus GB/s':>9}")
    while mib <= largest_mib:
        seconds, right = all_reduce(mib * MIB, device)
        ranks = dist.get_world_size()
        rate = mib * MIB / seconds / 1e9
        bus_gb_s = rate * 2 * (ranks - 1) / ranks
        if first:
            print(f"{mib:>6} {seconds * 1e6:>10.0f} {rate:>9.2f} {bus_gb_s:>9.2f}", flush=True)
        if not right:
            print(f"preflight: rank {dist.get_rank()}: a wrong sum at {mib} MiB", file=sys.stderr)
            return 1
        mib *= 8
    if first:
        print(f"preflight: {bus_gb_s:.2f} GB/s at the largest size, at least {minimum_gb_s:g} wanted")
    return int(bus_gb_s < minimum_gb_s)


def all_reduce(size: int, device: torch.device) -> tuple[float, bool]:
    """Seconds of one all-reduce of `size` bytes on the slowest rank, and whether the sum is right."""
    values = torch.full((size // 4,), float(dist.get_rank() + 1), device=device)
    dist.all_reduce(values)
    ranks = dist.get_world_size()
    right = bool((values == ranks * (ranks + 1) / 2).all())
    values.zero_()
    for _ in range(WARM_UP):
        dist.all_reduce(values)
    settle(device)
    begun = time.perf_counter()
    for _ in range(TIMED):
        dist.all_reduce(values)
    settle(device)
    spent = torch.tensor([(time.perf_counter() - begun) / TIMED], device=device)
    dist.all_reduce(spent, op=dist.ReduceOp.MAX)
    return float(spent.item()), right


def settle(device: torch.device) -> None:
    """Wait for every rank, and for the device's pending work."""
    dist.barrier()
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    sys.exit(main())
