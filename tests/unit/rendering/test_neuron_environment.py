"""The script for Neuron's Python environment, with pip over two local indexes: package sources and lock."""

import base64
import hashlib
import os
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from launcher.catalog.load import load
from launcher.rendering.engine import render_template

pytestmark = pytest.mark.long


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def indexes(tmp_path):
    """A folder with two indexes, `neuron` and `pypi`; its address."""
    folder = tmp_path / "indexes"
    (folder / "neuron").mkdir(parents=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def publish(index, name, version, content, requires=()):
    """Put a wheel with one module into an index."""
    folder = index / name
    folder.mkdir(parents=True, exist_ok=True)
    module = name.replace("-", "_")
    files = {
        f"{module}.py": content,
        f"{module}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + "".join(f"Requires-Dist: {requirement}\n" for requirement in requires),
        f"{module}-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        record += f"{path},sha256={digest},{len(text)}\n"
    files[f"{module}-{version}.dist-info/RECORD"] = record + f"{module}-{version}.dist-info/RECORD,,\n"
    with zipfile.ZipFile(folder / f"{module}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)


@pytest.fixture
def run_script(tmp_path, indexes):
    """Runs the script; its answer and what the module `torch_neuronx` of the environment says it is."""
    _, address = indexes

    def run(template, folder, *arguments):
        known = load().instance_types["trn1.32xlarge"].chip.training_stack
        stack = replace(known, release="2.28", python_packages=("torch-neuronx==2.9.0.2.*",))
        script = tmp_path / "environment.sh"
        script.write_text(
            render_template(template, stack=stack, python=sys.executable).replace(
                "https://download.pytorch.org/whl/cpu", f"{address}/pypi/"
            )
        )
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
        variables = {"PIP_INDEX_URL": f"{address}/pypi/", "NEURON_INDEX": f"{address}/neuron/", "PIP_NO_CACHE_DIR": "1"}
        answer = subprocess.run(
            ["bash", str(script), str(tmp_path / folder), *map(str, arguments)],
            env=clean | variables | {"PIP_CONFIG_FILE": os.devnull},
            capture_output=True,
            text=True,
            check=False,
        )
        completed = subprocess.run(
            [tmp_path / folder / "bin/python", "-c", "import torch_neuronx; print(torch_neuronx.OF)"],
            capture_output=True,
            text=True,
            check=False,
        )
        return answer, completed.stdout.strip()

    return run


def published(folder, requires=("numpy",)):
    """Packages in both indexes, of which Neuron's own is the older; the digest of Neuron's wheel."""
    publish(folder / "neuron", "torch-neuronx", "2.9.0.2.12", "OF = 'neuron'", requires=requires)
    publish(folder / "pypi", "torch-neuronx", "2.9.0.2.99", "OF = 'somebody else'")
    publish(folder / "pypi", "numpy", "2.0", "")
    wheel = folder / "neuron/torch-neuronx/torch_neuronx-2.9.0.2.12-py3-none-any.whl"
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


@pytest.mark.slow  # both scripts include one file that calls pip; the next test runs it
def test_neuron_packages_come_from_the_neuron_index_and_others_from_pypi(run_script, indexes, tmp_path):
    digest = published(indexes[0])
    answer, of = run_script("neuron/torchneuron.sh.j2", "first")
    assert (answer.returncode, of) == (0, "neuron"), answer.stderr
    lock = tmp_path / "first/requirements.lock"
    assert sorted(lock.read_text().splitlines())[1] == f"torch-neuronx==2.9.0.2.12 --hash=sha256:{digest}"
    assert len(lock.read_text().splitlines()) == 2
    assert f"{lock}; the same again: environment.sh OTHER-FOLDER {lock}" in answer.stdout


def test_dependencies_that_the_neuron_index_has_never_come_from_pypi(run_script, indexes, tmp_path):
    """Somebody publishes the names of packages on PyPI, with higher versions: direct, indirect, misspelled."""
    neuron, pypi = indexes[0] / "neuron", indexes[0] / "pypi"
    needs = ["neuron-xla>=2", "numpy", "Neuron_Tools", "xla>=3", 'absent-here; extra == "test"']
    digest = published(indexes[0], requires=needs)
    publish(neuron, "neuron-xla", "2.1", "", requires=["neuron-runtime"])
    for name in ("neuron-runtime", "neuron-tools"):
        publish(neuron, name, "1.0", "")
    for name in ("neuron-xla", "neuron-runtime", "neuron-tools"):
        publish(pypi, name, "99.0", "")
    publish(neuron, "xla", "2.0", "")
    publish(pypi, "xla", "3.0", "")
    answer, of = run_script("neuron/xla.sh.j2", "first")
    assert (answer.returncode, of) == (0, "neuron"), answer.stderr
    lock = tmp_path / "first/requirements.lock"
    lines = lock.read_text().splitlines()
    assert sorted(line.partition(" ")[0].replace("_", "-") for line in lines) == [
        "neuron-runtime==1.0",
        "neuron-tools==1.0",
        "neuron-xla==2.1",
        "numpy==2.0",
        "torch-neuronx==2.9.0.2.12",
        "xla==3.0",
    ]
    assert f"torch-neuronx==2.9.0.2.12 --hash=sha256:{digest}" in lines
    assert f"{lock}; the same again: environment.sh OTHER-FOLDER {lock}" in answer.stdout
    assert "no version of xla>=3 is in Neuron's index: taken from PyPI" in answer.stderr


@pytest.mark.parametrize(
    "template",
    # What pip is told is one file that both include.
    [pytest.param(name, marks=pytest.mark.slow) for name in ("neuron/xla.sh.j2", "neuron/torchneuron.sh.j2")],
)
def test_lock_file_installs_the_same_packages_or_fails(run_script, indexes, tmp_path, template):
    folder, _ = indexes
    published(folder)
    run_script(template, "first")
    lock = tmp_path / "first/requirements.lock"
    locked = lock.read_text()
    answer, _ = run_script(template, "first")  # once more over what is there
    assert (answer.returncode, lock.read_text()) == (0, locked), answer.stderr
    publish(folder / "pypi", "numpy", "2.1", "")
    answer, of = run_script(template, "second", lock)
    assert (answer.returncode, of) == (0, "neuron"), answer.stderr
    assert (tmp_path / "second/requirements.lock").read_text() == lock.read_text()
    assert "numpy-2.0" in answer.stdout
    publish(folder / "neuron", "torch-neuronx", "2.9.0.2.12", "OF = 'another'", requires=["numpy"])
    answer, of = run_script(template, "third", lock)
    assert answer.returncode != 0
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in answer.stderr
    assert of == ""
