"""The parameters with which AWS names its images; the emulated EC2 has none of the images themselves.

Judged by: the names and versions of the Deep Learning AMI, Neuron and PCS user guides (public parameters of
/aws/service); values are placeholders.
"""

from typing import Any

from moto.ssm.models import Parameter, ParameterDict

from launcher.model.ec2 import NEURON_IMAGE, NVIDIA_IMAGE
from launcher.model.pcs import IMAGE_PARAMETER

IMAGE = "ami-00000000000000000"
"""Placeholder for each image."""
PARAMETERS = frozenset((IMAGE_PARAMETER, NEURON_IMAGE, NVIDIA_IMAGE))


def publish_images() -> None:
    """Make moto's Parameter Store contain the images, as AWS's does in every region."""
    dictionary: Any = ParameterDict
    before = dictionary._check_loading_status  # noqa: SLF001 - where moto loads AWS's own parameters

    def load_parameters(parameters: Any, key: str) -> None:
        before(parameters, key)
        if key in PARAMETERS and not dict.get(parameters, key):
            fields = {"parameter_type": "String", "value": IMAGE, "version": 1, "data_type": "text"}
            empty = dict.fromkeys(("description", "allowed_pattern", "keyid"))
            make: Any = Parameter
            parameter = make(account_id=parameters.account_id, name=key, last_modified_date=0, **fields, **empty)
            dict.__setitem__(parameters, key, [parameter])

    dictionary._check_loading_status = load_parameters  # noqa: SLF001 - the same
