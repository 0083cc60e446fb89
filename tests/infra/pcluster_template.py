"""The CloudFormation templates that ParallelCluster makes of cluster configurations, on an AWS played by moto.

    python pcluster_template.py FILE...

Run with .venv-pcluster's interpreter, never imported. Prints one JSON object: for each file the list of its templates,
those of nested stacks included.
"""

import json
import os
import sys
from pathlib import Path

import yaml


def templates(cluster):
    """The template of a cluster and those of the stacks in it."""
    from pcluster.models.s3_bucket import S3Bucket
    from pcluster.templates.cdk_builder import CDKTemplateBuilder

    bucket = S3Bucket(name="set-up", service_name="slipway", stack_name="slipway", artifact_directory="slipway")
    cluster.cluster_name = "slipway"
    template, assets = CDKTemplateBuilder().build_cluster_template(cluster, bucket, "slipway", "/aws/slipway")
    return [template, *(asset["content"] for asset in assets)]


def main():
    """Print the templates of the files of the command line."""
    from pcluster_schema import ENVIRONMENT, loaded

    os.environ.update(ENVIRONMENT)
    texts = {path: yaml.safe_load(Path(path).read_text(encoding="utf-8")) for path in sys.argv[1:]}
    sys.stdout.write(json.dumps({path: loaded(each, templates) for path, each in texts.items()}, default=str) + "\n")


if __name__ == "__main__":
    main()
