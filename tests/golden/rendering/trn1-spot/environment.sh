#!/bin/bash
# The Python environment of PyTorch/XLA and NeuronX Distributed for Trainium1, pinned to Neuron 2.28: the release that
# AWS advises for XLA training, which later ones no longer support.
#
#   srun --nodes=1 bash environment.sh [FOLDER]     once, into the shared home; then run.setup: ["source FOLDER/bin/activate"]
set -euo pipefail
folder="${1:-$HOME/neuron-xla}"
python3.11 -m venv "$folder" || {
    echo "environment.sh: on Ubuntu: sudo apt-get install python3-venv" >&2
    exit 1
}
"$folder/bin/python" -m pip install --upgrade pip
packages=(
    torch-neuronx==2.9.0.2.12.22436
    neuronx-cc==2.23.6484.0
    libneuronxla==2.2.15515.0
    neuronx_distributed==0.17.26814
)
"$folder/bin/python" -m pip install --extra-index-url https://pip.repos.neuron.amazonaws.com "${packages[@]}"
echo "environment.sh: run.setup: [\"source $folder/bin/activate\"]"
