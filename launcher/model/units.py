"""Units: gigabytes of 10^9 and of 2^30 bytes, durations in words, the hours of a month and a year."""


# Gigabytes: models and checkpoints are sized in GB of 10^9 bytes, AWS bills GB of 2^30.
#
# | item | a billed GB | source | |---|---|---| | S3 storage | 2^30 bytes | S3 FAQs, Billing, storage example:
# "1,073,741,824 bytes per GB" | | data transfer | 2^30 bytes | S3 FAQs, Billing, transfer example over EC2 and S3:
# "62 TB * 1024 GB/TB" | | EBS, SageMaker's volumes, FSx | a GiB of the size | EC2 CreateVolume, FSx StorageCapacity:
# sizes are GiB | | NAT, endpoints, logs | taken as 2^30 bytes | no example was read |

GB_PER_GIB = 1.073741824
BILLED = (
    "2^30 bytes: S3 and data transfer by the examples of the S3 FAQs, EBS and FSx by the GiB of their size; of NAT,"
    " endpoints and logs not confirmed"
)
MINUTE_S, HOUR_S = 60, 3600
_SECONDS_UP_TO, _MINUTES_UP_TO = 2 * MINUTE_S, 2 * HOUR_S
_CONSONANT_Y = ("by", "cy", "dy", "fy", "gy", "ky", "ly", "my", "ny", "py", "ry", "sy", "ty")
HOURS_A_YEAR = 8760
MONTHS_A_YEAR = 12
HOURS_PER_MONTH = 730.0
"""A twelfth of a year's hours, as in AWS's own calculator."""


def billed_gb(gigabytes: float) -> float:
    """Billed GB for so many GB of 10^9 bytes.

    >>> round(billed_gb(107.3741824), 9)
    100.0
    """
    return gigabytes / GB_PER_GIB


def number_of(number: float, noun: str) -> str:
    """A number with its noun in the singular or the plural.

    >>> number_of(1, "hour"), number_of(1.5, "hour"), number_of(2400, "run")
    ('1 hour', '1.5 hours', '2,400 runs')
    >>> number_of(0, "address"), number_of(2, "copy"), number_of(2, "more key"), number_of(2, "epoch")
    ('0 addresses', '2 copies', '2 more keys', '2 epochs')
    """
    if number != 1:
        hissing = noun.endswith(("s", "x", "ch")) and not noun.endswith("och")
        ending = "ies" if noun.endswith(_CONSONANT_Y) else "es" if hissing else "s"
        noun = (noun[:-1] if ending == "ies" else noun) + ending
    return f"{number:,.0f} {noun}" if number == int(number) else f"{number:,g} {noun}"


def duration_text(seconds: float) -> str:
    """Seconds below two minutes, minutes below two hours, then hours to the tenth.

    >>> [duration_text(each) for each in (0.26, 36.4, 3103, 7200, 5e6)]
    ['0.3 s', '36 s', '52 min', '2 h', '1,388.9 h']
    """
    if seconds < 1:
        return f"{seconds:.1g} s"
    if seconds < _SECONDS_UP_TO:
        return f"{seconds:.0f} s"
    if seconds < _MINUTES_UP_TO:
        return f"{seconds / MINUTE_S:.0f} min"
    return f"{seconds / HOUR_S:,.1f}".removesuffix(".0") + " h"


def clock(seconds: float) -> str:
    """Time since a start, in clock format.

    >>> clock(5), clock(61.4), clock(7325)
    ('0:05', '1:01', '2:02:05')
    """
    minutes, seconds_left = divmod(int(seconds), MINUTE_S)
    hours, minutes = divmod(minutes, MINUTE_S)
    return f"{hours}:{minutes:02}:{seconds_left:02}" if hours else f"{minutes}:{seconds_left:02}"
