"""`slipway init --from`: small files of other tools, the plans that they give, and what is named as lost."""

import json
from pathlib import Path

import pytest

from launcher.catalog.load import load
from launcher.model.errors import UnreadableInputError
from launcher.workflow.quote.imports.read import import_file, plan_text
from tests.imported_files import read

SBATCH = """#!/bin/bash
#SBATCH --job-name=Train_GPT
#SBATCH -N 2
#SBATCH --gres=gpu:h100:8
#SBATCH --ntasks-per-node=1
#SBATCH --time=1-12:00:00
#SBATCH --partition=gpu
#SBATCH --signal=B:USR1@120
#SBATCH --array=0-3

module load cuda/12.4
source venv/bin/activate
export NCCL_DEBUG=INFO
export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)

srun --container-image=nvcr.io#nvidia/pytorch:24.10-py3 \\
    torchrun --nnodes=2 --nproc-per-node=8 train.py --lr 3e-4
"""
SKY = """
name: sft
resources:
  infra: aws/us-west-2
  accelerators: A100-80GB:8
  use_spot: true
  disk_size: 500
num_nodes: 4
workdir: src
envs: {MODEL: llama, HF_TOKEN: null}
file_mounts: {/data: s3://corpus/tokens}
setup: |
  pip install -r requirements.txt
run: |
  torchrun --nnodes $SKYPILOT_NUM_NODES train.py
"""
DSTACK = """
type: task
name: train
nodes: 2
image: nvcr.io/nvidia/pytorch:24.10-py3
env: [WANDB_MODE=offline, HF_TOKEN]
commands:
  - pip install .
  - torchrun --nnodes=$DSTACK_NODES_NUM train.py
resources:
  gpu: H100:80GB:8
  shm_size: 16GB
spot_policy: auto
max_duration: 12h
max_price: 60.5
regions: [us-east-1]
"""
PCLUSTER = """
Region: us-east-2
Image: {Os: ubuntu2204}
HeadNode: {InstanceType: m6i.2xlarge, Networking: {SubnetId: subnet-0a}, Ssh: {KeyName: mine}}
Scheduling:
  Scheduler: slurm
  SlurmQueues:
    - Name: cpu
      ComputeResources: [{Name: c, InstanceType: c5.4xlarge, MaxCount: 20}]
      Networking: {SubnetIds: [subnet-0b]}
    - Name: gpu
      CapacityType: SPOT
      ComputeResources:
        - {Name: p4, Instances: [{InstanceType: p4d.24xlarge}], MinCount: 0, MaxCount: 4, Efa: {Enabled: true}}
      Networking: {SubnetIds: [subnet-0b], PlacementGroup: {Enabled: true}}
SharedStorage:
  - {Name: fast, StorageType: FsxLustre, MountDir: /fsx, FsxLustreSettings: {StorageCapacity: 4800}}
  - {Name: home, StorageType: Efs, MountDir: /home}
Tags: [{Key: team, Value: nlp}]
"""


def test_sbatch_script_becomes_plan_with_losses(tmp_path):
    imported, request = read(tmp_path, "job.sh", SBATCH)
    assert (request.name, request.target.nodes.minimum, request.target.instance_type) == (
        "train-gpt",
        2,
        ("p5.48xlarge",),
    )
    assert (request.run.time_limit_h, request.checkpoint.signal.value, request.checkpoint.grace_seconds) == (
        36,
        "SIGUSR1",
        120,
    )
    assert request.run.image == "nvcr.io/nvidia/pytorch:24.10-py3"
    assert request.run.env == {"NCCL_DEBUG": "INFO"}
    assert request.run.setup == ("module load cuda/12.4", "source venv/bin/activate")
    assert "torchrun --nnodes=2 --nproc-per-node=8 train.py --lr 3e-4" in request.run.command[-1]
    lost = "\n".join(imported.lost)
    for word in ("--partition", "--array", "srun", "MASTER_ADDR", "module load"):
        assert word in lost


def test_options_of_slurm_that_a_plan_lacks_are_named(tmp_path):
    text = "#!/bin/sh\n#SBATCH -N 2 --mail-type=END --export=ALL,LR=1\nsrun --container-mounts /fsx:/fsx python t.py\n"
    lost = "\n".join(read(tmp_path, "job.sbatch", text)[0].lost)
    for word in ("--mail-type", "--export", "--container-mounts /fsx:/fsx"):
        assert word in lost
    plain = read(tmp_path, "job.sbatch", "#!/bin/sh\n#SBATCH -N 2\n#SBATCH --export=ALL\npython t.py\n")[0]
    assert not [line for line in plain.lost if "export" in line]


def test_further_gpus_of_a_dstack_task_are_named(tmp_path):
    gpu = "{name: [H100, A100], memory: 24GB.., count: 8..16}"
    imported, _ = read(tmp_path, "t.dstack.yml", f"type: task\ncommands: [x]\nresources: {{gpu: {gpu}}}\n")
    lost = "\n".join(imported.lost)
    assert "others: A100" in lost
    assert "resources.gpu.memory" in lost
    assert "resources.gpu.count: 8 of 8..16" in imported.assumed


def test_money_and_settings_of_a_parallelcluster_queue_are_named(tmp_path):
    text = PCLUSTER.replace("Efa: {Enabled: true}}", "Efa: {Enabled: true}, SpotPrice: 12.5}")
    text = text.replace("PlacementGroup: {Enabled: true}", "AdditionalSecurityGroups: [sg-1]")
    text = text.replace("Scheduler: slurm", "Scheduler: slurm\n  SlurmSettings: {ScaledownIdletime: 20}")
    text = text.replace("StorageCapacity: 4800", "StorageCapacity: 4800, ImportPath: s3://my-data/x")
    lost = "\n".join(read(tmp_path, "config.yaml", text)[0].lost)
    for word in ("p4: SpotPrice", "AdditionalSecurityGroups", "SlurmSettings.ScaledownIdletime", "fast: ImportPath"):
        assert word in lost


def test_gpus_of_whole_job_are_divided_by_nodes(tmp_path):
    _, request = read(tmp_path, "job.sbatch", "#!/bin/sh\n#SBATCH -N2 -t 90\n#SBATCH --gpus=a100:16\npython train.py\n")
    assert (request.target.instance_type, request.run.time_limit_h) == (("p4d.24xlarge",), 1.5)


def test_gpus_without_kind_are_reported_as_lost(tmp_path):
    imported, request = read(tmp_path, "job.sh", "#!/bin/sh\n#SBATCH --gpus-per-node=4\npython train.py\n")
    assert request.target.instance_type is None
    assert any("4 GPUs a node" in line for line in imported.lost)


@pytest.mark.parametrize(
    "line,command",
    [
        ("srun -l --export=ALL $LAUNCH --out $DIR/%j 2>&1 | tee log", "$LAUNCH --out $DIR/%j 2>&1 | tee log"),
        ('srun -N2 -n 2 $OPTIONS bash -c "RANK=\\$R $CMD"', 'bash -c "RANK=\\$R $CMD"'),
        ('srun "${ARGS[@]}" --mpi pmix torchrun `hostname -s` x.py', "torchrun `hostname -s` x.py"),
    ],
)
def test_srun_is_taken_from_a_line_that_stays_as_written(tmp_path, line, command):
    text = f"""#!/bin/bash
#SBATCH --gpus-per-task=1 --ntasks-per-node=8 --job-name="open
LAUNCH="torchrun x.py"
OPTIONS=" \\
    --wait=60 \\
    --kill-on-bad-exit=1 "
declare -a ARGS=(--container-image $IMAGE)
{line}
"""
    imported, request = read(tmp_path, "job.sbatch", text)
    assert imported.get("run.command").splitlines()[-1] == command
    assert request.run.image is None
    assert "8 GPUs a node" in " ".join(imported.lost)


def test_skypilot_pipeline_becomes_plan_of_its_first_job_with_the_others_named(tmp_path):
    text = "name: pipe\n---\nname: data\nrun: python data.py\n---\nname: train\nresources: {accelerators: H100:8}\n"
    imported, request = read(tmp_path, "pipe.yaml", text)
    assert request.name == "data"
    assert any(text.startswith("tasks train: a plan has one job") for text in imported.lost)


@pytest.mark.parametrize(
    "text,lost",
    [
        (
            "resources: {network_tier: best, future: 1}\nrun: python t.py",
            ("resources.network_tier", "resources.future"),
        ),
        ("resources: {accelerators: A100:1}\nrun: x.sh\npool: p", ("with 8 (p4d.24xlarge)", "pool: ")),
        (
            "envs: {HF_TOKEN: hf_abcDEF1234567890abcDEF12345, A: x}\nrun: x.sh",
            ("run.env.HF_TOKEN: looks like a token", "instance type: the file"),
        ),
        (
            "type: task\ncommands: ['x ${{ run.args }}']\nresources: {gpu: H100:8, new: 1}\nnvcc: true",
            ("${{ ... }}", "resources.new", "nvcc"),
        ),
    ],
)
def test_every_key_of_a_task_that_is_not_read_is_named(tmp_path, text, lost):
    imported, request = read(tmp_path, "task.yaml", text)
    assert request.run.command
    assert all(any(word in line for line in imported.lost) for word in lost), imported.lost
    assert "abcDEF" not in " ".join(imported.lost)


@pytest.mark.parametrize(
    "text",
    [
        "name: x\nruntime: yaml\nresources: {bucket: {type: aws:s3:Bucket}}",
        "resources: [a.yaml, b.yaml]",
        "num_nodes: 1\nnum_epochs: 3\ntrain: {lr: 1}",
    ],
)
def test_resources_of_other_tools_are_no_task(tmp_path, text):
    path = tmp_path / "file.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UnreadableInputError, match="of no tool that --from reads"):
        import_file(path, load())


def test_parallelcluster_values_that_no_plan_can_have_are_named(tmp_path):
    text = """
Region: ${AWS_REGION}
Image: {Os: alinux2, CustomAmi: ami-12}
HeadNode: {InstanceType: t3.micro, Networking: {SubnetId: s}, Image: {CustomAmi: ami-1}}
Scheduling:
  Scheduler: slurm
  SlurmQueues:
    - Name: gpu
      HealthChecks: {Gpu: {Enabled: true}}
      ComputeResources: [{Name: p, InstanceType: p4d.24xlarge, MinCount: "${N}", MaxCount: "${N}"}]
SharedStorage:
  - {Name: fast, StorageType: FsxLustre, MountDir: /fsx, FsxLustreSettings: {StorageCapacity: 3600}}
DirectoryService: {DomainName: x}
"""
    imported, request = read(tmp_path, "cluster.yaml", text)
    assert request.target.instance_type == ("p4d.24xlarge",)
    lost = " ".join(imported.lost)
    for word in (
        "${AWS_REGION}",
        "alinux2",
        "ami-12",
        "t3.micro",
        "HeadNode.Image",
        "HealthChecks",
        "3600",
        "DirectoryS",
    ):
        assert word in lost


def test_skypilot_task_becomes_plan_with_losses(tmp_path):
    imported, request = read(tmp_path, "task.yaml", SKY)
    assert (request.name, request.target.nodes.minimum, request.target.region) == ("sft", 4, ("us-west-2",))
    assert request.target.instance_type == ("p4de.24xlarge",)
    assert [option.value for option in request.purchase.option] == ["spot"]
    assert (request.run.workdir, request.run.env) == ("src", {"MODEL": "llama"})
    assert request.run.setup == ("pip install -r requirements.txt",)
    lost = "\n".join(imported.lost)
    assert [(source.uri, source.path) for source in request.run.data] == [("s3://corpus/tokens", "/data")]
    for word in ("disk_size", "HF_TOKEN", "SKYPILOT_NUM_NODES is SLIPWAY_NODES"):
        assert word in lost


@pytest.mark.parametrize("cloud", ["gcp", "lambda"])
def test_task_for_other_cloud_is_reported(tmp_path, cloud):
    imported, request = read(
        tmp_path, "t.yaml", f"resources: {{cloud: {cloud}, accelerators: L4}}\nrun: python train.py\n"
    )
    assert f"cloud {cloud}: Slipway deploys on AWS" in imported.lost
    assert request.target.instance_type == ("g6.xlarge",)


def test_dstack_task_becomes_plan_with_losses(tmp_path):
    imported, request = read(tmp_path, ".dstack.yml", DSTACK)
    assert (request.target.nodes.minimum, request.target.instance_type) == (2, ("p5.48xlarge",))
    assert request.purchase.option is None
    assert (request.run.time_limit_h, str(request.budget.max_usd_per_hour)) == (12, "121.0")
    assert request.run.env == {"WANDB_MODE": "offline"}
    assert "pip install .\ntorchrun" in request.run.command[-1]
    assert "HF_TOKEN" in "\n".join(imported.lost)


def test_dstack_service_refused(tmp_path):
    (tmp_path / "s.yml").write_text("type: service\nname: x\n", encoding="utf-8")
    with pytest.raises(Exception, match="type service is no job"):
        import_file(tmp_path / "s.yml", load())


def test_parallelcluster_configuration_becomes_plan_with_losses(tmp_path):
    imported, request = read(tmp_path, "cluster.yaml", PCLUSTER)
    assert (request.target.instance_type, request.target.nodes.maximum) == (("p4d.24xlarge",), 4)
    assert (request.target.os.value, request.storage.head_node, request.storage.lustre_gib) == (
        "ubuntu2204",
        "m6i.2xlarge",
        4800,
    )
    assert [option.value for option in request.purchase.option] == ["spot"]
    assert request.workload.train is None
    assert request.tags == {"team": "nlp"}
    lost = "\n".join(imported.lost)
    for word in ("queues cpu", "Efs", "HeadNode.Ssh", "SubnetIds subnet-0b"):
        assert word in lost


def test_file_of_unknown_tool_refused_naming_known_tools(tmp_path):
    (tmp_path / "x.yaml").write_text("a: 1\n", encoding="utf-8")
    with pytest.raises(Exception, match="of no tool"):
        import_file(tmp_path / "x.yaml", load())


@pytest.mark.parametrize(
    "source, reason",
    [
        ("missing.sh", "cannot read missing.sh: No such file or directory"),
        ("train.py/job.sh", "cannot read train.py/job.sh: Not a directory"),
        (".", "cannot read .: it is a folder"),
    ],
)
def test_unreadable_source_refused_with_reason(tmp_path, monkeypatch, slipway, source, reason):
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    code, _, err = slipway("init", "plan.yaml", "--from", source)
    assert code == 2
    assert f"error: {reason}\n" in err
    assert not Path("plan.yaml").exists()
    assert "Errno" not in slipway("diff", "train.py", source).err


def test_init_from_file_writes_plan_and_prints_losses(tmp_path, monkeypatch, slipway):
    monkeypatch.chdir(tmp_path)
    Path("job.sh").write_text(SBATCH, encoding="utf-8")
    Path("train.py").touch()
    code, _, err = slipway("init", "plan.yaml", "--from", "job.sh")
    assert code == 0
    assert "lost: #SBATCH --partition" in err
    assert "assumed: workload.train.hours: 36" in err
    assert slipway("plan", "plan.yaml").code == 0
    assert Path("plan.yaml").read_text(encoding="utf-8").startswith("# From an sbatch script, job.sh.\n# Lost:\n")


def test_init_json_has_the_losses_and_the_next_command(tmp_path, monkeypatch, slipway):
    monkeypatch.chdir(tmp_path)
    Path("job.sh").write_text(SBATCH, encoding="utf-8")
    Path("train.py").touch()
    document = json.loads(slipway("init", "plan.yaml", "--from", "job.sh", "--json").out)
    assert document["plan"] == "plan.yaml"
    assert Path(document["schema_file"]).is_file()
    assert any("#SBATCH --partition" in lost for lost in document["lost"])
    assert any("workload.train.hours: 36" in assumed for assumed in document["assumed"])
    assert slipway(*document["next"].split()[1:]).code == 0


@pytest.mark.parametrize(
    "options,nodes,lost",
    [
        ("-n 384 --gpus-per-node=8", 1, "the nodes of 384 tasks"),
        ("-n 16 --ntasks-per-node=4 --gres=gpu:a100:8", 4, None),
        ("--nodes=$COUNT", 1, "#SBATCH --nodes $COUNT"),
        ("-N 2 --gres=gpu", 2, "1 GPU a node"),
        ("-N 2 -n 16 --gpus-per-task=1", 2, "8 GPUs a node"),
        ("-N 2 --gres=gpu:v100", 2, "v100:1"),
        ("-N 2 --gres=nvme:1,gpu:a100:8(S:0-1)", 2, "--gres=nvme:1,gpu:a100:8(S:0-1)"),
        ("-N 2 --time=$LIMIT", 2, "#SBATCH --time $LIMIT"),
    ],
)
def test_nodes_gpus_and_limit_of_a_script_are_read_or_named(tmp_path, options, nodes, lost):
    imported, request = read(tmp_path, "job.sbatch", f"#!/bin/sh\n#SBATCH {options}\npython train.py\n")
    assert request.target.nodes.minimum == nodes
    assert lost is None or lost in "\n".join(imported.lost)
    assert "a100" not in options or request.target.instance_type == ("p4d.24xlarge",)


def test_blocks_and_here_documents_of_a_script_stay_as_written(tmp_path):
    body = """python - <<'EOF' > conf.py
if True:
    # a comment of the document
    export = 1
EOF
if [ -n "$FAST" ]; then
    export NCCL_DEBUG=WARN
fi
setup() {
export MASTER_ADDR=localhost
}
for run in 1 2; do
  srun -v torchrun x.py
done"""
    imported, _ = read(tmp_path, "job.sbatch", f"#!/bin/sh\n#SBATCH -N 2\nexport LR=1\n{body}\n")
    assert imported.get("run.command") == body.replace("srun -v ", "")
    assert imported.get("run.env") == {"LR": "1"}


def test_mpirun_is_taken_with_its_options_and_variables(tmp_path):
    line = (
        "mpirun -n $((8 * SLURM_JOB_NUM_NODES)) -N 8 -x NCCL_DEBUG=INFO -x PATH=$HOME/bin --mca pml ^ucx --bind-to none"
    )
    imported, request = read(tmp_path, "job.sbatch", f"#!/bin/sh\n#SBATCH -N 2\n{line} ${{BIN}} -b 8\n")
    assert imported.get("run.command") == "${BIN} -b 8"
    assert request.run.env == {"NCCL_DEBUG": "INFO"}
    lost = "\n".join(imported.lost)
    assert "mpirun -x PATH=$HOME/bin" in lost
    assert "mpirun --mca pml ^ucx" in lost


def test_command_of_several_lines_is_written_as_these_lines(tmp_path):
    path = tmp_path / "task.yaml"
    path.write_text(SKY.replace("  torchrun", "  if true; then\n    cd src\n  fi\n  torchrun"), encoding="utf-8")
    text = plan_text(import_file(path, load()), path)
    assert "  command: |-\n    if true; then\n      cd src\n    fi\n    torchrun --nnodes" in text


@pytest.mark.parametrize(
    "gpu,instance_type",
    [
        ("A100:80GB:8", "p4de.24xlarge"),
        ("{name: A100, memory: 80GB.., count: 8}", "p4de.24xlarge"),
        ("A100:40GB:8", "p4d.24xlarge"),
        ("H100:8..", "p5.48xlarge"),
    ],
)
def test_memory_and_count_of_a_dstack_gpu_choose_the_type(tmp_path, gpu, instance_type):
    text = f"type: task\ncommands: [x]\nresources: {{gpu: '{gpu}'}}\n".replace("'{", "{").replace("}'", "}")
    assert read(tmp_path, "t.dstack.yml", text)[1].target.instance_type == (instance_type,)


@pytest.mark.parametrize(
    "resources,lost",
    [
        ("{accelerators: {A100: 8, H100: 8}}", "others: H100:8"),
        ("{accelerators: 'A100:8+'}", "accelerators A100:8+"),
        ("{infra: aws/us-west-2/us-west-2b, accelerators: 'A100:8'}", "zone us-west-2b"),
        ("{disk_size: 200}", "instance type"),
    ],
)
def test_resources_of_a_skypilot_task_are_read_or_named(tmp_path, resources, lost):
    imported, _ = read(tmp_path, "task.yaml", f"resources: {resources}\nrun: python x.py\n")
    assert lost in "\n".join(imported.lost)


def test_queues_of_a_template_and_a_second_file_system_are_named(tmp_path):
    text = PCLUSTER.replace("p4d.24xlarge", "$INSTANCE")
    imported, request = read(tmp_path, "config.yaml", text)
    assert "target.instance_type $INSTANCE: another program fills it in" in "\n".join(imported.lost)
    assert "queues cpu:" in "\n".join(imported.lost)
    assert (request.target.instance_type, request.target.nodes.maximum) == (None, 4)
    assert [option.value for option in request.purchase.option] == ["spot"]
    again = "  - {Name: two, StorageType: FsxLustre, FsxLustreSettings: {StorageCapacity: 1200}}\n"
    imported, request = read(tmp_path, "config.yaml", PCLUSTER.replace("SharedStorage:\n", "SharedStorage:\n" + again))
    assert request.storage.lustre_gib == 1200
    assert "SharedStorage fast (FsxLustre)" in "\n".join(imported.lost)


def test_other_deployment_of_a_lustre_file_system_is_named(tmp_path):
    scratch = PCLUSTER.replace("StorageCapacity: 4800", "StorageCapacity: 4800, DeploymentType: SCRATCH_2")
    assert "DeploymentType SCRATCH_2" in "\n".join(read(tmp_path, "config.yaml", scratch)[0].lost)
    usual = scratch.replace("SCRATCH_2", "PERSISTENT_2")
    assert "DeploymentType" not in "\n".join(read(tmp_path, "config.yaml", usual)[0].lost)


def test_skypilot_variables_of_the_setup_are_named(tmp_path):
    text = "setup: echo $SKYPILOT_NODE_RANK\nrun: python x.py\n"
    assert "SKYPILOT_ variables" in "\n".join(read(tmp_path, "task.yaml", text)[0].lost)


@pytest.mark.parametrize(
    "written,placed,lost",
    [
        ("PlacementGroup: {Enabled: true}", True, ""),
        ("PlacementGroup: {Enabled: false}", False, ""),
        ("PlacementGroup: {Enabled: true, Name: ours}", True, "PlacementGroup.Name: Slipway makes the group"),
        ("AssignPublicIp: false", None, "queue gpu: Networking.AssignPublicIp"),
    ],
)
def test_placement_group_of_a_parallelcluster_queue_is_taken_over(tmp_path, written, placed, lost):
    imported, request = read(tmp_path, "c.yaml", PCLUSTER.replace("PlacementGroup: {Enabled: true}", written))
    assert request.target.placement_group is placed
    assert lost in "\n".join(imported.lost)


def test_efa_counts_and_capacity_of_a_parallelcluster_template_are_named(tmp_path):
    text = PCLUSTER.replace("Efa: {Enabled: true}", "Efa: {Enabled: false, GdrSupport: true}")
    text = text.replace("MaxCount: 4", "MaxCount: '${N}'").replace("CapacityType: SPOT", "CapacityType: '${BUY}'")
    imported, request = read(tmp_path, "c.yaml", text)
    lost = "\n".join(imported.lost)
    for word in ("Efa.Enabled false", "Efa.GdrSupport", "MaxCount ${N}: another program", "CapacityType ${BUY}"):
        assert word in lost
    assert (request.target.nodes, request.purchase.option) == (None, None)


def test_settings_of_head_node_logins_and_scheduling_are_named(tmp_path):
    text = PCLUSTER.replace("Scheduler: slurm", "Scheduler: slurm\n  ScalingStrategy: all-or-nothing")
    text += "LoginNodes: {Pools: [{Name: in, Count: '<count>', InstanceType: m5.large}]}\n"
    text = text.replace("MountDir: /fsx", "MountDir: /scratch")
    lost = "\n".join(read(tmp_path, "c.yaml", text)[0].lost)
    named = ("Scheduling.ScalingStrategy", "LoginNodes in: InstanceType", "LoginNodes in: Count <count>")
    for word in (*named, "HeadNode.Networking.SubnetId", "MountDir /scratch"):
        assert word in lost


@pytest.mark.parametrize(
    "mount,lost",
    [
        ("/code: ./code", "file_mounts /code (./code): run.workdir"),
        ("/out: {name: my-bucket, mode: MOUNT}", "file_mounts /out (my-bucket, MOUNT): checkpoints"),
        ("/data: gs://bucket/x", "file_mounts /data (gs://bucket/x): run.data"),
        ("~/data: s3://bucket/x", "file_mounts ~/data (s3://bucket/x): run.data"),
    ],
)
def test_file_mounts_of_a_skypilot_task_are_named_one_by_one(tmp_path, mount, lost):
    imported, request = read(
        tmp_path, "t.yaml", f"file_mounts: {{'{mount.replace(': ', chr(39) + ': ', 1)}}}\nrun: x\n"
    )
    assert lost in "\n".join(imported.lost)
    assert request.run.data == ()


def test_task_of_a_script_without_a_program_file_has_the_name_of_its_file(tmp_path):
    text = "secrets: {HF_TOKEN: null}\nsetup: |\n  cd src\n  make\nrun: |\n  if true; then\n    vllm serve x\n  fi\n"
    imported, request = read(tmp_path, "kimi-k2.yaml", text)
    assert request.name == "kimi-k2"
    lost = "\n".join(imported.lost)
    assert "secrets HF_TOKEN: run.secrets" in lost
    assert "cd in setup" in lost
