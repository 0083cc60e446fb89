#!/bin/bash
# The Python environment of PyTorch/XLA and NeuronX Distributed for Trainium1, pinned to Neuron 2.28: the release that
# AWS recommends for XLA training; later releases do not support it.
#
#   srun --nodes=1 bash environment.sh [FOLDER [LOCK]]     once, into the shared home
#
# Then run.setup: ["source FOLDER/bin/activate"]. LOCK is the requirements.lock of an earlier run: then only the
# packages that it lists are installed, by their hashes.
set -euo pipefail
folder="${1:-$HOME/neuron-xla}"
python3.11 -m venv "$folder" || {
    echo "environment.sh: on Ubuntu: sudo apt-get install python3-venv" >&2
    exit 1
}
indexes=()
# pip 22.2 and later reports the hashes of what it installed. This hash of pip is PyPI's (read 2026-11-22).
python="$folder/bin/python"
if ! "$python" -m pip install --help | grep -e --report >/dev/null; then
    printf 'pip==26.3 --hash=sha256:f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13\n' >"$folder/pip.txt"
    "$python" -m pip install --require-hashes -r "$folder/pip.txt"
fi
neuron="${NEURON_INDEX:-https://pip.repos.neuron.amazonaws.com}"
lock="$folder/requirements.lock"
if [[ -n "${2:-}" ]]; then
    "$python" -m pip install --require-hashes --extra-index-url "$neuron" "${indexes[@]}" -r "$2"
    cp "$2" "$lock"
else
    packages=(
        torch-neuronx==2.9.0.2.12.22436
        neuronx-cc==2.23.6484.0
        libneuronxla==2.2.15515.0
        neuronx_distributed==0.17.26814
    )
    rm -rf "$folder/wheels"
    # Neuron publishes no hashes, and PyPI has packages of the same names: download these only from Neuron's index.
    "$python" -m pip download --no-deps --only-binary :all: --index-url "$neuron" --dest "$folder/wheels" "${packages[@]}"
    # So it is with what they need: of a name in both indexes pip would take the higher version.
    "$python" - "$neuron" "$folder/wheels" <<'NEEDS'
import subprocess, sys, urllib.error, urllib.request, zipfile
from email.parser import Parser
from pathlib import Path
from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name

index, folder = sys.argv[1].rstrip("/"), Path(sys.argv[2])

def has(name):
    try:
        urllib.request.urlopen(f"{index}/{name}/", timeout=60).close()
    except urllib.error.HTTPError as answer:
        # S3 answers 403 for a key that does not exist.
        if answer.code not in (403, 404):
            raise
        return False
    return True

def needs(wheel):
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA") and name.count("/") == 1)
        lines = Parser().parsestr(opened.read(name).decode()).get_all("Requires-Dist", [])
    found = (Requirement(line) for line in lines)
    return [need for need in found if need.marker is None or need.marker.evaluate({"extra": ""})]

download = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--index-url", index]
read = set()
while wheels := sorted(set(folder.glob("*.whl")) - read):
    read.update(wheels)
    for need in (need for wheel in wheels for need in needs(wheel)):
        there = {canonicalize_name(wheel.name.partition("-")[0]) for wheel in folder.glob("*.whl")}
        if canonicalize_name(need.name) in there or not has(canonicalize_name(need.name)):
            continue
        wanted = f"{need.name}{need.specifier}"
        done = subprocess.run([*download, "--dest", folder, wanted], stderr=subprocess.PIPE, text=True)
        if done.returncode and "No matching distribution" not in done.stderr:
            sys.exit(done.stderr)
        if done.returncode:
            print(f"environment.sh: no version of {wanted} is in Neuron's index: taken from PyPI", file=sys.stderr)
NEEDS
    "$python" -m pip install --force-reinstall --report "$folder/report.json" \
        --extra-index-url "$neuron" "${indexes[@]}" "$folder"/wheels/*.whl
    "$python" - "$folder/report.json" >"$lock.new" <<'LOCK'
import json, sys
for each in json.load(open(sys.argv[1]))["install"]:
    named, found = each["metadata"], each["download_info"]["archive_info"]
    print(f"{named['name']}=={named['version']} --hash=sha256:{found['hashes']['sha256']}")
LOCK
    mv "$lock.new" "$lock"
    rm -r "$folder/wheels" "$folder/report.json"
fi
echo "environment.sh: what was installed, with its hashes: $lock; the same again: environment.sh OTHER-FOLDER $lock"
echo "environment.sh: run.setup: [\"source $folder/bin/activate\"]"
