"""`slipway init --from` of a torchx component."""

from tests.imported_files import read

TORCHX = '''
import torchx.specs as specs


def trainer(script: str = "train.py", nodes: int = 4, lr: float = 0.1, *extra: str) -> specs.AppDef:
    """Trains."""
    return specs.AppDef(
        name="ddp_trainer",
        roles=[
            specs.Role(
                name="worker",
                image="ghcr.io/team/train:1",
                entrypoint="torchrun",
                args=["--nnodes", str(nodes), script, "--lr", f"{lr}", *extra],
                num_replicas=nodes,
                max_retries=3,
                env={"A": "1"},
                resource=specs.resource(h="aws_p4d.24xlarge"),
                mounts=[],
            )
        ],
    )
'''


def test_torchx_component_becomes_plan_without_execution(tmp_path):
    imported, request = read(tmp_path, "component.py", TORCHX.replace('"""Trains."""', "raise SystemExit(1)"))
    assert (request.name, request.target.nodes.minimum, request.target.instance_type) == (
        "ddp-trainer",
        4,
        ("p4d.24xlarge",),
    )
    assert request.run.command[:6] == ("torchrun", "--nnodes", "4", "train.py", "--lr", "0.1")
    assert (request.run.retries, request.run.image, request.run.env) == (3, "ghcr.io/team/train:1", {"A": "1"})
    assert any("argument *extra" in line for line in imported.lost)


def test_torchx_roles_of_a_loop_and_names_assigned_before_are_read(tmp_path):
    text = """
import torchx.specs as specs

def _helper():
    return 1

def hsdp(replicas: int = 2) -> specs.AppDef:
    env = {"A": "1"}
    resource = specs.resource(h="aws_p4d.24xlarge")
    roles = [specs.Role(name="r", entrypoint="torchrun", args=["t.py"], env=env, resource=resource) for i in range(2)]
    return specs.AppDef(name="hsdp", roles=roles)
"""
    imported, request = read(tmp_path, "component.py", text)
    assert (request.run.env, request.target.instance_type) == ({"A": "1"}, ("p4d.24xlarge",))
    assert any("the number of roles" in line for line in imported.lost)


def test_values_of_a_torchx_role_that_are_known_at_a_run_are_named(tmp_path):
    text = """import torchx.specs as specs
def ddp(script: str, j: str = "2x8") -> specs.AppDef:
    env = {}
    env["A"] = j
    nodes = int(j[0])
    return specs.AppDef(name="ddp", roles=[specs.Role(
        name="t", image=script, entrypoint="bash", args=list(script), num_replicas=int(nodes), min_replicas=1,
        env={"B": find(j)}, max_retries=retries(), resource=specs.resource(cpu=4, gpu=8, memMB=1024))])
"""
    imported, _ = read(tmp_path, "component.py", text)
    lost = "\n".join(imported.lost)
    named = ("args list(script)", "num_replicas int(nodes)", "min_replicas", "env 'B'", "max_retries", "memMB 1024")
    for word in (*named, "parameter script", "8 GPUs"):
        assert word in lost


def test_further_components_of_a_torchx_file_are_named(tmp_path):
    imported, request = read(tmp_path, "component.py", TORCHX + TORCHX.replace("def trainer(", "def evaluator("))
    assert request.name == "ddp-trainer"
    assert "components evaluator" in "\n".join(imported.lost)
    assert "components" not in "\n".join(read(tmp_path, "component.py", TORCHX)[0].lost)
