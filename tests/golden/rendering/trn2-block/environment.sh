#!/bin/bash
# The Python environment of TorchNeuron, PyTorch's native backend for Trainium2 (Neuron 2.33: public beta).
#
#   srun --nodes=1 bash environment.sh [FOLDER]     once, into the shared home; then run.setup: ["source FOLDER/bin/activate"]
#
# AWS publishes wheels of this release for Ubuntu 26.04 alone. On Ubuntu 24.04 its deep-learning image has the environment
# already: bake from it (image.yaml), or build torch-neuronx from source as its documentation says.
set -euo pipefail
folder="${1:-$HOME/torchneuron}"
ready=/opt/aws_neuronx_venv_torch_neuronx_2_14_0
if [[ -d "$ready" ]]; then
    echo "environment.sh: the image has it: run.setup: [\"source $ready/bin/activate\"]"
    exit 0
fi
python3 -m venv "$folder" || {
    echo "environment.sh: on Ubuntu: sudo apt-get install python3-venv" >&2
    exit 1
}
"$folder/bin/python" -m pip install --upgrade pip
packages=(
    'torch-neuronx==2.14.3.0.*'
    'neuronx-cc==2.28.7631.*'
    'nki==0.7.*'
)
"$folder/bin/python" -m pip install --extra-index-url https://pip.repos.neuron.amazonaws.com \
    --extra-index-url https://download.pytorch.org/whl/cpu "${packages[@]}"
echo "environment.sh: run.setup: [\"source $folder/bin/activate\"]"
