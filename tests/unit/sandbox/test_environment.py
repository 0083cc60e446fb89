import os

from launcher.sandbox.environment import of_sandbox, without_aws
from launcher.sandbox.keys import AccessKey


class TestSandboxEnvironment:
    def test_environment_without_aws_drops_variables_of_the_caller(self):
        base = {"AWS_PROFILE": "prod", "AWS_SESSION_TOKEN": "t", "https_proxy": "http://p", "PATH": "/bin"}
        assert without_aws(base) == {"PATH": "/bin"}

    def test_sandbox_environment_hides_profiles_and_has_separate_credentials(self):
        variables = of_sandbox("http://localhost:1", "us-west-2", AccessKey(id="key", secret="word"))
        assert variables["AWS_CONFIG_FILE"] == variables["AWS_SHARED_CREDENTIALS_FILE"] == os.devnull
        assert (
            variables["AWS_REGION"] == variables["AWS_DEFAULT_REGION"] == variables["CDK_DEFAULT_REGION"] == "us-west-2"
        )
        assert (variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"]) == ("key", "word")
        assert variables["AWS_ENDPOINT_URL"] == "http://localhost:1"
