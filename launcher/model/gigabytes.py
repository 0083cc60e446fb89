"""Gigabytes: models and checkpoints are sized in GB of 10^9 bytes, AWS bills GB of 2^30.

| item | a billed GB | source |
|---|---|---|
| S3 storage | 2^30 bytes | S3 FAQs, Billing, storage example: "1,073,741,824 bytes per GB" |
| data transfer | 2^30 bytes | S3 FAQs, Billing, transfer example over EC2 and S3: "62 TB * 1024 GB/TB" |
| EBS, SageMaker's volumes, FSx | a GiB of the size | EC2 CreateVolume, FSx StorageCapacity: sizes are GiB |
| NAT, endpoints, logs | taken as 2^30 bytes | no example was read |
"""

GB_PER_GIB = 1.073741824
BILLED = (
    "2^30 bytes: S3 and data transfer by the examples of the S3 FAQs, EBS and FSx by the GiB of their size; of NAT,"
    " endpoints and logs not confirmed"
)


def billed_gb(gigabytes: float) -> float:
    """GB on a bill of so many GB of 10^9 bytes.

    >>> round(billed_gb(107.3741824), 9)
    100.0
    """
    return gigabytes / GB_PER_GIB
