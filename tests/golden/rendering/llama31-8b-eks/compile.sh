#!/bin/bash
#SBATCH --job-name=compile-llama31-8b-eks
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --exclusive
#SBATCH --time=0-04:00:00
#SBATCH --output=compile-llama31-8b-eks-%j.out
#
# Compiles llama-3.1-8b for one shape and stores it in S3 with its weights, for an endpoint without network access:
# tensor parallel 8, batch 32, 2048 tokens, for inf2.
#
#   bash compile.sh        on an EC2 instance of inf2 with Docker, the AWS CLI, the Neuron driver, 85 GiB of disk and
#                          about 34 GiB of memory
#   sbatch compile.sh      on a cluster of such instances
#
#   SLIPWAY_WORK=/scratch  working folder for the model
#   SLIPWAY_RECOMPILE=1    compile again if S3 already has a compiled model
set -euo pipefail
source=s3://models-of-the-team/llama-3.1-8b/weights
destination=s3://models-of-the-team/llama-3.1-8b/inf2-tp8-b32-s2048
image=763104351884.dkr.ecr.us-east-1.amazonaws.com/huggingface-vllm-inference-neuronx:0.11.0-optimum0.4.5-neuronx-py310-sdk2.26.1-ubuntu22.04
work="${SLIPWAY_WORK:-$PWD}/compile-llama31-8b-eks"

fail() {
    echo "compile: $*" >&2
    exit 1
}

for program in aws docker python3; do
    command -v "$program" >/dev/null || fail "$program is missing"
done
devices=()
cores=0
for device in "${SLIPWAY_DEVICES:-/dev}"/neuron[0-9]*; do
    if [[ -e $device ]]; then
        devices+=(--device "$device")
        # A chip has two cores.
        cores=$((cores + 2))
    fi
done
((cores >= 8)) || fail "8 NeuronCores are needed, found $cores: an instance of inf2 with its driver"
if [[ ${SLIPWAY_RECOMPILE:-0} != 1 ]] && aws s3 ls "$destination/neuron_config.json" >/dev/null; then
    fail "$destination is compiled already; SLIPWAY_RECOMPILE=1 does it again"
fi
memory="$(awk '$1 == "MemTotal:" { print int($2 / 1048576) }' "${SLIPWAY_MEMINFO:-/proc/meminfo}")"
((memory >= 34)) || echo "compile: the compiler needs about 34 GiB of memory, this host has $memory: it may be killed" >&2
mkdir -p "$work/compiled"
free="$(df -P -k "$work" | awk 'NR == 2 { print int($4 / 1048576) }')"
((free >= 85)) || fail "85 GiB are needed in $work, $free are free: set SLIPWAY_WORK"

echo "compile: fetching $image"
aws ecr get-login-password --region us-east-1 | docker login --username AWS --password-stdin 763104351884.dkr.ecr.us-east-1.amazonaws.com
docker pull --quiet "$image"

in_container=(docker run --rm "${devices[@]}" --volume "$work:/compile")
echo "compile: fetching $source"
aws s3 sync --only-show-errors "$source" "$work/model"
[[ -f $work/model/config.json ]] || fail "$source has no config.json: it must be a folder of the hub's form"

echo "compile: compiling, which takes half an hour and more"
"${in_container[@]}" --entrypoint optimum-cli "$image" export neuron \
    --model /compile/model \
    --task text-generation \
    --instance_type inf2 \
    --tensor_parallel_size 8 \
    --batch_size 32 \
    --sequence_length 2048 \
    /compile/compiled

# Check here what an endpoint would reject when it starts.
python3 - "$work/compiled/neuron_config.json" <<'EOF'
import json
import pathlib
import sys

path = pathlib.Path(sys.argv[1])
wanted = {
    "target": "inf2",
    "tp_degree": 8,
    "batch_size": 32,
    "sequence_length": 2048,
}
if not path.exists():
    sys.exit(f"compile: {path.name} was not written")
made = json.loads(path.read_text())
wrong = [f"{key} is {made.get(key)}, not {value}" for key, value in wanted.items() if made.get(key) != value]
if wrong:
    sys.exit("compile: " + "; ".join(wrong))
EOF
[[ -d $work/compiled/checkpoint ]] || fail "the weights are not beside the compiled model: an endpoint could not load them"

echo "compile: storing it in $destination"
# The marker file is uploaded last, so that an incomplete upload does not count as a compiled model.
aws s3 sync --only-show-errors --exclude neuron_config.json "$work/compiled" "$destination"
aws s3 cp --only-show-errors "$work/compiled/neuron_config.json" "$destination/neuron_config.json"
echo "compile: done; workload.serve.artifacts_uri: $destination"
