"""FSx for Lustre file system for data sets and checkpoints."""

from typing import Final

import pulumi
import pulumi_aws as aws

from infra.boot.ec2_node import Mount
from infra.components.file_system import FileSystem, FileSystemArgs, VolumeSource
from infra.naming import build_namespace_directory
from infra.plan.specs import ExistingLustreSpec, FileSystemSpec, LinkedBucket, NewLustreSpec

PORTS: Final = ((988, 988), (1018, 1023))
"""https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html"""
LUSTRE_VERSION: Final = "2.15"
DRIVER: Final = "fsx.csi.aws.com"
EGRESS: Final = aws.vpc.SecurityGroupEgressRule


class LustreStorage(FileSystem):
    """Creates:
    - an FSx for Lustre file system, unless an existing one is given; PERSISTENT_2 is encrypted with a new key or the
      user's key
    - a security group that admits the nodes and the file servers; for an existing file system, on request, only rules
      that admit the nodes
    - a data repository association that imports objects of a bucket as files and exports files as objects
    """

    def __init__(
        self,
        name: str,
        spec: NewLustreSpec | ExistingLustreSpec,
        args: FileSystemArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("LustreStorage", name, spec, args, opts)
        file_system_id: pulumi.Input[str]
        dns_name: pulumi.Input[str]
        mount_name: pulumi.Input[str]
        if isinstance(spec, ExistingLustreSpec):
            file_system_id, dns_name, mount_name = spec.id, spec.dns_name, spec.mount_name
            for group in spec.admitting_groups:
                self._allow_node_ingress(group)
        else:
            file_system = self._create_file_system(spec)
            file_system_id, dns_name, mount_name = file_system.id, file_system.dns_name, file_system.mount_name
            self.mounting.append(file_system)
            if spec.linked is not None:
                self._link_bucket(file_system, spec.linked)
        # https://docs.aws.amazon.com/fsx/latest/LustreGuide/mount-fs-auto-mount-onreboot.html
        # `flock` lets processes on different nodes lock files, as HDF5 and SQLite do.
        options = f" {spec.mount_path} lustre defaults,relatime,flock,_netdev 0 0"
        self.mount = Mount(spec.mount_path, pulumi.Output.concat(dns_name, "@tcp:/", mount_name, options), spec.owned)
        self._file_system_id, self._dns_name, self._mount_name = file_system_id, dns_name, mount_name
        if spec.namespaces:
            self._prepare_volumes(spec)
        self.exports = {
            "lustreFileSystemId": file_system_id,
            "lustreDnsName": dns_name,
            "lustreMountName": mount_name,
        }
        self.register_outputs({"fileSystemId": file_system_id})

    def _prepare_volumes(self, spec: FileSystemSpec) -> None:
        """Let the pods of each namespace mount its directory and the shared data, but not the root directory."""
        self.whole = self._build_volume()
        self.volumes = {namespace: self._build_volume(build_namespace_directory(namespace)) for namespace in spec.namespaces}
        if (data := spec.shared_data) is not None:
            self.data_volumes = {
                namespace: self._build_volume(data.path, read_only=namespace not in data.writers) for namespace in spec.namespaces
            }

    def _build_volume(self, directory: str = "", *, read_only: bool = False) -> VolumeSource:
        """Return a volume that contains only the directory: Lustre clients can mount a subdirectory, and the CSI driver mounts
        `dnsname@tcp:/mountname`. With the driver and a real file system: NOT VERIFIED, read 2026-11-29.

        https://docs.aws.amazon.com/fsx/latest/LustreGuide/mounting-from-fileset.html,
        https://github.com/kubernetes-sigs/aws-fsx-csi-driver/blob/master/pkg/driver/node.go (NodePublishVolume)
        """
        attributes = {"dnsname": self._dns_name, "mountname": pulumi.Output.concat(self._mount_name, directory)}
        source = {"driver": DRIVER, "volume_handle": self._file_system_id, "volume_attributes": attributes}
        return {"csi": source, "mount_options": ["flock", *(["ro"] if read_only else [])]}

    def _create_file_system(self, new: NewLustreSpec) -> aws.fsx.LustreFileSystem:
        args, name = self._args, self._name
        group, rules = self._create_server_security_group()
        return aws.fsx.LustreFileSystem(
            f"{name}-file-system",
            subnet_ids=new.subnet_id or args.subnets[new.zone][0],
            security_group_ids=[group.id],
            deployment_type=new.deployment,
            storage_capacity=new.size_gib,
            per_unit_storage_throughput=new.throughput_per_tib,
            data_compression_type="LZ4" if new.compression else "NONE",
            file_system_type_version=LUSTRE_VERSION,
            kms_key_id=self._create_key("Lustre file system", "fsx").arn if new.creates_key else new.key_arn,
            tags=args.naming.tags(Name=f"{name}-file-system"),
            # FSx checks at creation that the file servers can reach each other.
            opts=pulumi.ResourceOptions(parent=self, protect=new.protect, depends_on=rules),
        )

    def _create_server_security_group(self) -> tuple[aws.ec2.SecurityGroup, list[pulumi.Resource]]:
        """Create the security group of the file servers. Return it with the rules for traffic between the servers."""
        name, nodes = self._name, self._args.nodes
        group = self._create_security_group(f"Lustre file system of {self._args.naming.cluster}")
        servers: list[pulumi.Resource] = []
        for ports in PORTS:
            between, back = "File servers reach each other", "File servers reach nodes"
            first = ports[0]
            servers += [
                self._create_security_group_rule(f"{name}-servers-{first}-ingress", group.id, group.id, ports, between),
                self._create_security_group_rule(f"{name}-servers-{first}-egress", group.id, group.id, ports, between, EGRESS),
            ]
            # File servers also open connections to clients, for example to recall locks.
            self.mounting += [
                self._create_security_group_rule(f"{name}-nodes-{first}-egress", group.id, nodes, ports, back, EGRESS),
                self._create_security_group_rule(f"{name}-from-servers-{first}-ingress", nodes, group.id, ports, back),
            ]
        self._allow_node_ingress(group.id)
        return group, servers

    def _allow_node_ingress(self, group: pulumi.Input[str]) -> None:
        for ports in PORTS:
            name = f"{self._name}-nodes-{ports[0]}-ingress"
            self.mounting.append(
                self._create_security_group_rule(name, group, self._args.nodes, ports, "Nodes mount the Lustre file system")
            )

    def _link_bucket(self, file_system: aws.fsx.LustreFileSystem, linked: LinkedBucket) -> None:
        policies: aws.fsx.DataRepositoryAssociationS3ArgsDict = {}
        if linked.imports:
            policies["auto_import_policy"] = {"events": list(linked.imports)}
        if linked.exports:
            policies["auto_export_policy"] = {"events": list(linked.exports)}
        association = aws.fsx.DataRepositoryAssociation(
            f"{self._name}-data",
            file_system_id=file_system.id,
            data_repository_path=linked.path,
            file_system_path=linked.directory,
            batch_import_meta_data_on_create=True,
            s3=policies,
            tags=self._args.naming.tags(Name=f"{self._name}-data"),
            # A directory can be linked to only one bucket at a time.
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )
        self.mounting.append(association)
