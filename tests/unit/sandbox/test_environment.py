import os

from launcher.sandbox.environment import of_sandbox, without_aws
from launcher.sandbox.keys import AccessKey


class TestSandboxEnvironment:
    def test_nothing_of_the_person_is_left(self):
        base = {"AWS_PROFILE": "prod", "AWS_SESSION_TOKEN": "t", "https_proxy": "http://p", "PATH": "/bin"}
        assert without_aws(base) == {"PATH": "/bin"}

    def test_profiles_and_credentials_are_out_of_reach(self):
        found = of_sandbox("http://localhost:1", "us-west-2", AccessKey(id="key", secret="word"))
        assert found["AWS_CONFIG_FILE"] == found["AWS_SHARED_CREDENTIALS_FILE"] == os.devnull
        assert found["AWS_REGION"] == found["AWS_DEFAULT_REGION"] == found["CDK_DEFAULT_REGION"] == "us-west-2"
        assert (found["AWS_ACCESS_KEY_ID"], found["AWS_SECRET_ACCESS_KEY"]) == ("key", "word")
        assert found["AWS_ENDPOINT_URL"] == "http://localhost:1"
