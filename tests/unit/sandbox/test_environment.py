import os
from pathlib import Path

import launcher
from launcher.sandbox.environment import machine_environment, sandbox_environment, without_aws
from launcher.sandbox.keys import AccessKey


class TestSandboxEnvironment:
    def test_environment_without_aws_drops_variables_of_the_caller(self):
        base = {"AWS_PROFILE": "prod", "AWS_SESSION_TOKEN": "t", "https_proxy": "http://p", "PATH": "/bin"}
        assert without_aws(base) == {"PATH": "/bin"}

    def test_emulated_machine_has_nothing_of_the_submitting_shell(self):
        callers = {
            "WORLD_SIZE": "8",
            "SLURM_JOB_ID": "7",
            "PMIX_RANK": "1",
            "NCCL_DEBUG": "INFO",
            "OMPI_COMM_WORLD_SIZE": "2",
            "WANDB_API_KEY": "k",
            "HUGGING_FACE_HUB_TOKEN": "t",
            "DB_PASSWORD": "p",
            "BASH_ENV": "/home/me/.env",
            "BASH_FUNC_ls%%": "() { :; }",
            "LD_PRELOAD": "/x.so",
            "AWS_PROFILE": "prod",
            "SLIPWAY_MASTER_ADDR": "10.0.0.9",
            "SLIPWAY_RUN": "other",
            "JAX_PLATFORMS": "cpu",
            "PIP_TARGET": "/x",
            "HF_HOME": "/home/me/hf",
            "MY_DATA": "/home/me/data",
            "PYTHONPATH": "/home/me/src",
            "TZ": "Asia/Kolkata",
        }
        machines = {
            "PATH": "/bin",
            "HOME": "/root",
            "SSL_CERT_FILE": "/ca.pem",
            "SLIPWAY_SCRATCH": "/nvme",
            "LANG": "C",
        }
        assert machine_environment(callers | machines) == machines

    def test_emulated_machine_keeps_only_the_package_folders_of_the_sandbox(self, tmp_path):
        users, own = tmp_path / "src", Path(launcher.__file__).parents[1]
        users.mkdir()
        assert machine_environment({"PYTHONPATH": f"{users}:{own}:"}) == {"PYTHONPATH": str(own)}

    def test_sandbox_environment_hides_profiles_and_has_separate_credentials(self):
        variables = sandbox_environment("http://localhost:1", "us-west-2", AccessKey(id="key", secret="word"))
        assert variables["AWS_CONFIG_FILE"] == variables["AWS_SHARED_CREDENTIALS_FILE"] == os.devnull
        assert (
            variables["AWS_REGION"] == variables["AWS_DEFAULT_REGION"] == variables["CDK_DEFAULT_REGION"] == "us-west-2"
        )
        assert (variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"]) == ("key", "word")
        assert variables["AWS_ENDPOINT_URL"] == "http://localhost:1"
