"""Overlay layer with the files that, on EC2, come from the platform rather than the AMI.

Because of this layer, software on a host detects EC2 as the platform and as the cloud-init data source, and uses the
local AWS endpoint.
"""

import json
import secrets
from pathlib import Path

from infra.naming import EMULATED_DEVICES_FILE
from localcloud.kubernetes.addresses import AWS_ADDRESS, AWS_PORT

BOOT = "/usr/lib/ec2-hardware/boot"
"""Path of the init program that prepares a host and then starts systemd."""
PROXY_PORT = 3128
NO_GPU = "local hosts have no GPU and share the kernel of this machine"
NO_EFA = "local hosts have no EFA"

_MASKED = ("systemd-modules-load.service", "systemd-remount-fs.service", "systemd-udev-trigger.service", "fstrim.timer")
"""Masked systemd units. These units manage the kernel or disks, which hosts share with this machine."""


def write_layer(layer: Path, region: str, file_systems: Path, control_token: str) -> None:
    """Write the layer. `file_systems`: folder in which the local AWS keeps the contents of file systems.
    `control_token`: token of the control API, for the mount helpers."""
    if layer.exists():
        return  # hosts may already have mounted the layer
    units = layer / "etc/systemd/system"
    _write_file(layer / BOOT.lstrip("/"), _BOOT, 0o755)
    _write_file(layer / EMULATED_DEVICES_FILE.lstrip("/"), json.dumps({"gpu": NO_GPU, "efa": NO_EFA}) + "\n")
    for masked in _MASKED:
        _create_symlink(units / masked, "/dev/null")
    _write_file(layer / "etc/cloud/cloud.cfg.d/99-local-cloud.cfg", "datasource_list: [ Ec2 ]\n")
    variables = build_environment_variables(region)
    quoted = " ".join(f'"{name}={value}"' for name, value in variables.items())
    _write_file(layer / "etc/systemd/system.conf.d/90-local-cloud.conf", f"[Manager]\nDefaultEnvironment={quoted}\n")
    _write_file(layer / "etc/ssh/sshd_config.d/90-local-cloud.conf", f"SetEnv {quoted}\n")
    for kind in ("efs", "lustre"):
        helper = _MOUNT_HELPER.replace("@files@", str(file_systems)).replace("@region@", region)
        _write_file(layer / f"usr/sbin/mount.{kind}", helper, 0o755)
    _write_file(layer / CONTROL_TOKEN.lstrip("/"), control_token, 0o600)
    _create_symlink(layer / "etc/resolv.conf", "../run/systemd/resolve/stub-resolv.conf")
    proxy = variables["https_proxy"]
    _write_file(
        layer / "etc/apt/apt.conf.d/90local-cloud", f'Acquire::http::Proxy "{proxy}";\nAcquire::https::Proxy "{proxy}";\n'
    )


def build_environment_variables(region: str) -> dict[str, str]:
    """Return environment variables for all services and logins. SDKs use the local AWS; package managers use the egress
    proxy."""
    proxy = f"http://{AWS_ADDRESS}:{PROXY_PORT}"
    return {
        "AWS_ENDPOINT_URL": f"http://{AWS_ADDRESS}:{AWS_PORT}",
        "AWS_DEFAULT_REGION": region,
        "http_proxy": proxy,
        "https_proxy": proxy,
        "no_proxy": f"{AWS_ADDRESS},169.254.169.254,localhost,127.0.0.1",
        "OMPI_MCA_mpi_yield_when_idle": "1",  # all hosts share this machine's cores, so waiting ranks must yield
    }


_BOOT = """#!/bin/sh -e
# First process of a host; it starts systemd. cloud-init uses IMDSv2 only if the hypervisor's uuid is that of EC2, and
# files cannot be created in sysfs:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/identify_ec2_instances.html
# Mount /sys read-only, as in a container. Otherwise networkd waits for udev, which containers do not have.
d=/run/ec2-hardware
mkdir -p $d/upper/hypervisor $d/work $d/cgroup $d/sys
echo ec2e1916-9099-7caf-fd21-012345abcdef >$d/upper/hypervisor/uuid
mount --rbind /sys/fs/cgroup $d/cgroup
mount -t sysfs sysfs $d/sys # a new one shows the network devices of this host, not of the machine that started it
mount -t overlay overlay -o ro,lowerdir=$d/sys,upperdir=$d/upper,workdir=$d/work /sys
mount --rbind $d/cgroup /sys/fs/cgroup
exec /lib/systemd/systemd
"""

CONTROL_TOKEN = "/usr/lib/ec2-hardware/control-token"
"""Path of a file on a host with the token of the control API. Only root can read the file."""
FILE_SYSTEMS = "/run/file-systems"
"""Path on a host at which root can access all file systems. Users can access only the file systems that the mount
helper mounts."""

_MOUNT_HELPER = f"""#!/usr/bin/python3
# Stands in for the helpers of amazon-efs-utils and of the Lustre client, by the same command lines:
#   mount -t efs -o tls,iam,accesspoint=fsap-... fs-...:/ /shared
#   mount -t lustre -o relatime,flock fs-....fsx.us-west-2.amazonaws.com@tcp:/abcdefgh /fsx
# The local AWS says whether this instance may, and where the files are.
import json, os, subprocess, sys, urllib.error, urllib.request
ask = urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open
metadata = "http://169.254.169.254/latest"
lifetime = {{"X-aws-ec2-metadata-token-ttl-seconds": "60"}}
token = ask(urllib.request.Request(metadata + "/api/token", method="PUT", headers=lifetime), timeout=10).read().decode()
own = {{"X-aws-ec2-metadata-token": token}}
instance = ask(urllib.request.Request(metadata + "/meta-data/instance-id", headers=own), timeout=10).read().decode()
source, target, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
given = ",".join(rest[i + 1] for i, one in enumerate(rest) if one == "-o").split(",")
options = dict(one.partition("=")[::2] for one in given)
asked = {{"region": "@region@", "instance": instance}}
if os.path.basename(sys.argv[0]) == "mount.lustre":
    service, asked["source"] = "fsx", source
else:
    name, _, path = source.partition(":")
    service = "efs"
    asked.update(fileSystem=name.split(".")[0], path=path or "/", accessPoint=options.get("accesspoint"),
                 encrypted="tls" in options)
url = "http://{AWS_ADDRESS}:{AWS_PORT}/local-cloud/" + service + "/mounts"
headers = {{"Authorization": "Bearer " + open("{CONTROL_TOKEN}").read(), "Content-Type": "application/json"}}
request = urllib.request.Request(url, json.dumps(asked).encode(), headers)
answer = json.load(ask(request, timeout=30))
if "error" in answer:
    sys.exit(answer["error"])
folder = "{FILE_SYSTEMS}/" + os.path.relpath(answer["folder"], "@files@")
subprocess.run(["mount", "--bind", folder, target], check=True)
if answer["readOnly"] or "ro" in options:
    subprocess.run(["mount", "-o", "remount,bind,ro", target], check=True)
"""


def _write_file(file: Path, text: str, mode: int = 0o644) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.{secrets.token_hex(4)}")  # booting hosts may write the shared layer concurrently
    part.touch(mode=0o600)
    part.write_text(text)
    part.chmod(mode)
    part.replace(file)


def _create_symlink(file: Path, target: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    part.symlink_to(target)
    part.replace(file)
