"""Limits of SageMaker training jobs (botocore 1.44.5, CreateTrainingJob; SageMaker developer guide)."""

LONGEST_H = 28 * 24.0
"""MaxRuntimeInSeconds: 28 days."""
LONGEST_WARM_MINUTES = 60.0
"""KeepAlivePeriodInSeconds: 3,600 by the developer guide; the API's model has 21,600."""
GRACE_S = 120.0
"""Seconds from SIGTERM, by StopTrainingJob or a time limit, to SIGKILL."""
SHORTEST_PENDING_S, LONGEST_PENDING_S = 1800, 2_419_200
"""MaxPendingTimeInSeconds, which only types with accelerators support."""
LONGEST_IMAGE = 255
"""Characters of TrainingImage."""
MAX_RETRIES = 30
"""RetryStrategy: only after SageMaker's own errors."""
LOG_GROUP = "/aws/sagemaker/TrainingJobs"
"""Log group of all training jobs of an account and region; one stream for each node."""
JOBS_OUTPUT = "TrainingJobs"
"""The output of the training jobs' stack: the tag that identifies them."""
