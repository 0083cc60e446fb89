#!/bin/bash
# Runs as root on each node of HyperPod when it is made (lifecycle script OnCreate). HyperPod itself has it join the EKS
# cluster, and what shows its chips and interfaces are pods; so there is nothing to do but to say that it came.
set -euo pipefail

root="${SLIPWAY_ROOT:-}"
mkdir -p "$root/var/log/provision"
echo "slipway: $(hostname) is a node of "p5-governed | tee -a "$root/var/log/provision/provisioning.log"
