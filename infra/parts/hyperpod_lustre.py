"""The file system that all nodes of a HyperPod cluster mount: the jobs' home, and the training data."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_fsx as fsx
from constructs import Construct

from launcher.model.plan import Plan
from launcher.targets.registry import target_of


class HyperPodLustre(Construct):
    """FSx for Lustre in the nodes' own subnet and security group, which allows all traffic between its members.

    Attributes:
        file_system: the file system.
        dns_name: its name in the VPC.
        mount_name: the name in the mount command.
    """

    def __init__(self, scope: Construct, id_: str, *, plan: Plan, subnet_id: str, security_group_id: str) -> None:
        """Create the file system, and link the plan's training data to /data in it."""
        super().__init__(scope, id_)
        storage, train = plan.request.storage, plan.request.workload.train
        self.file_system = fsx.CfnFileSystem(
            self,
            "FileSystem",
            file_system_type="LUSTRE",
            file_system_type_version="2.15",
            storage_capacity=target_of(plan.place.target).shared_gib(storage.lustre_gib),
            subnet_ids=[subnet_id],
            security_group_ids=[security_group_id],
            kms_key_id=storage.kms_key_arn,
            lustre_configuration=fsx.CfnFileSystem.LustreConfigurationProperty(
                deployment_type="PERSISTENT_2",
                per_unit_storage_throughput=storage.lustre_mb_s_per_tib,
                data_compression_type="LZ4",
            ),
        )
        # It goes with the cluster, as ParallelCluster's does; checkpoints are in S3.
        self.file_system.apply_removal_policy(RemovalPolicy.DESTROY)
        self.dns_name = self.file_system.attr_dns_name
        self.mount_name = self.file_system.attr_lustre_mount_name
        if train is not None and train.data.uri is not None:
            fsx.CfnDataRepositoryAssociation(
                self,
                "Data",
                file_system_id=self.file_system.ref,
                file_system_path="/data",
                data_repository_path=train.data.uri,
                batch_import_meta_data_on_create=True,
                s3=fsx.CfnDataRepositoryAssociation.S3Property(
                    auto_import_policy=fsx.CfnDataRepositoryAssociation.AutoImportPolicyProperty(
                        events=["NEW", "CHANGED", "DELETED"]
                    )
                ),
            )
