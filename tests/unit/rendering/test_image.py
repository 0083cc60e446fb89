"""The image for compute nodes contains what nodes would otherwise install."""

import subprocess

import yaml

from launcher.catalog.assets import asset

TRN2 = {"instance_type": "trn2.48xlarge"}


def files(bundle):
    texts = {file.path: file.text for file in bundle.files if file.path.startswith("image")}
    return {path: yaml.safe_load(text) for path, text in texts.items()}


def script(bundle):
    (step,) = files(bundle)["image-component.yaml"]["phases"][0]["steps"]
    (text,) = step["inputs"]["commands"]
    return text


class TestComponent:
    def test_image_component_runs_the_node_script(self, bundle_of, plan_of):
        first, second, *rest = script(bundle_of(plan_of(target=TRN2))).splitlines()
        assert first == "export SLIPWAY_BAKE=1"
        assert second.startswith("set -- aws-neuronx-dkms=2.31.7.0 ")
        lines = asset("templates/parallelcluster/node.sh").read_text().splitlines()[1:]
        include = lines.index("# included: templates/slurm/report_boot.sh")
        included = [line for line in rest if line not in lines]
        assert rest[:include] == lines[:include]
        assert rest[len(rest) - len(lines) + include + 1 :] == lines[include + 1 :]
        assert "report_boot() {" in included

    def test_image_component_installs_packages_in_a_dry_run(self, bundle_of, plan_of, tmp_path):
        (tmp_path / "etc").mkdir()
        (tmp_path / "etc/os-release").write_text("ID=ubuntu\nVERSION_CODENAME=noble\n")
        environ = {"PATH": "/usr/bin:/bin", "SLIPWAY_DRY_RUN": "1", "SLIPWAY_ROOT": str(tmp_path)}
        text = script(bundle_of(plan_of(target=TRN2)))
        answer = subprocess.run(["bash", "-c", text], env=environ, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr
        assert r"aws-neuronx-dkms=2.31.7.0\*" in answer.stdout
        assert "modprobe" not in answer.stdout

    def test_image_component_fits_the_limits_of_image_builder(self, bundle_of, plan_of):
        """At most 16,000 characters, and no braces that it would fill in."""
        text = bundle_of(plan_of(target=TRN2)).file("image-component.yaml").text
        assert len(text) < 16_000
        assert "{{" not in text


class TestImage:
    def test_image_uses_the_component_and_the_permissions_boundary(self, bundle_of, plan_of):
        extra = {"security": {"permissions_boundary_arn": "arn:aws:iam::123456789012:policy/engineers"}}
        build = files(bundle_of(plan_of(target=TRN2, **extra)))["image.yaml"]["Build"]
        (component,) = build["Components"]
        assert component["Value"].endswith(":component/slipway-small/1.0.0/1")
        assert build["Imds"] == {"ImdsSupport": "v2.0"}
        assert build["Iam"] == {"PermissionsBoundary": "arn:aws:iam::123456789012:policy/engineers"}

    def test_torchneuron_image_uses_the_torchneuron_parent(self, bundle_of, plan_of):
        assert "torch-neuronx 2.14.0" in bundle_of(plan_of(target=TRN2)).file("image.yaml").text
        xla = plan_of(target={"instance_type": "trn1.32xlarge", "region": "us-west-2"})
        assert "torch-neuronx" not in bundle_of(xla).file("image.yaml").text

    def test_no_image_is_rendered_without_missing_packages_or_with_mixed_types(self, bundle_of, plan_of):
        assert files(bundle_of(plan_of())) == {}
        assert files(bundle_of(plan_of(target={**TRN2, "ami": "ami-0123456789abcdef0"}))) == {}
        assert files(bundle_of(plan_of(target={**TRN2, "os": "rocky9"}))) == {}
        mixed = {"instance_type": "trn2.48xlarge", "fallback_types": ["trn1.32xlarge"]}
        assert files(bundle_of(plan_of(target=mixed))) == {}
