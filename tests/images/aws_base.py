"""Stubs of AWS's Deep Learning Containers, the base images of the recipes in `images/`.

A stub is a Debian root with files at the paths of Amazon Linux 2023 and of AWS's images, taken from their sources:
https://github.com/aws/deep-learning-containers, commit e0ecede, 2026-08-21 (docker/base/cu132/Dockerfile,
docker/pytorch/Dockerfile.cuda, scripts/docker/common/install_efa_amzn2023.sh).

These parts are real: bash, sshd, Python, pip, the linker, and an Open MPI 5 at AWS's path. These are stubs: dnf, rpm,
curl and make (scripts that record their arguments), CUDA, NCCL, EFA, Open MPI 4.1 and torch (empty libraries and files),
and the output of `ompi_info` about CUDA.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Final

from localcloud.images import build, layers, root
from localcloud.images.archive import list_layer_paths, write_layout
from localcloud.images.catalogue import PYTHON, Image
from localcloud.images.recipes import Provisioned, Root

DEBIAN: Final = Image(
    "docker.io/test/aws-base:1",
    "the Debian below the stubs",
    (
        Root(),
        Provisioned(PYTHON),
        Provisioned(("install-openssh.sh", "install-tini.sh")),
        Provisioned(("install-openmpi.sh",), (("OPENMPI_SERIES", "5"),)),
    ),
)
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LIBRARIES: Final = (
    "/opt/amazon/ofi-nccl/lib64:/opt/amazon/openmpi/lib:/opt/amazon/openmpi/lib64:/opt/amazon/efa/lib:/opt/amazon/efa/lib64"
)
SETTINGS: Final = {
    "mpi": {
        "Env": [
            f"PATH=/usr/local/cuda/bin:/opt/amazon/openmpi/bin:/opt/amazon/efa/bin:{_PATH}",
            f"LD_LIBRARY_PATH=/usr/local/lib:/usr/local/cuda/lib64:{_LIBRARIES}",
        ],
        "Cmd": ["/bin/bash"],
    },
    "pytorch": {
        "Env": [
            f"PATH=/opt/venv/bin:/opt/amazon/openmpi/bin:/opt/amazon/efa/bin:/usr/local/cuda/bin:{_PATH}",
            f"LD_LIBRARY_PATH=/opt/venv/lib/python3.12/site-packages/nvidia/nccl/lib:{_LIBRARIES}:/usr/local/cuda/lib64",
        ],
        "Entrypoint": ["/usr/local/bin/entrypoint.sh"],
        "Cmd": ["bash"],
        "WorkingDir": "/workspace",
    },
}
"""Maps a recipe to the container settings of its base image."""

AMAZON_LINUX: Final = (
    *("binutils", "ca-certificates", "diffutils", "findutils", "gawk", "gcc", "gcc-c++", "make", "openssh-clients"),
    *("openssh-server", "procps-ng", "shadow-utils", "tar", "gzip", "util-linux", "which"),
)
"""Packages of Amazon Linux 2023 that the recipes may install. curl-minimal is not listed, because it conflicts with the
installed curl. Amazon Linux has no tini: https://docs.aws.amazon.com/linux/al2023/release-notes/all-packages.html
"""

SHIMS: Final = {
    "usr/bin/rpm": "#!/bin/sh\nexit 1  # --query: nothing is installed\n",
    "usr/bin/dnf": """#!/bin/bash
[[ $1 == install ]] || exit 0
shift
for name; do
  [[ $name == --* ]] && continue
  if ! grep --quiet --line-regexp --fixed-strings "$name" /stubs/packages; then
    echo "Error: Unable to find a match: $name" >&2
    exit 1
  fi
  echo "$name" >>/stubs/dnf.log
done
""",
    "usr/bin/curl": """#!/usr/bin/python3
import pathlib, sys, urllib.request
target, url = sys.argv[sys.argv.index("--output") + 1], sys.argv[-1]
if not url.startswith("file://"):
    sys.exit(f"curl: (6) Could not resolve host: {url}")
pathlib.Path(target).write_bytes(urllib.request.urlopen(url).read())
""",
    # The stub of nccl-tests' source already contains the compiled program.
    "usr/bin/make": """#!/bin/sh
echo "$@" >/stubs/make.log
# What the linker would find for -lnccl, and the compiler for nccl.h
for word; do case $word in NCCL_HOME=*) home=${word#*=} ;; esac; done
readlink -f "$home/lib/libnccl.so" "$home/include" >/stubs/nccl.log
while [ "$1" != --directory ]; do shift; done
mkdir -p "$2/build" && cp "$2/all_reduce_perf" "$2/build/"
""",
    "usr/local/cuda/bin/nvcc": "#!/bin/sh\n",
    "usr/local/bin/bash_telemetry.sh": "#!/bin/bash\ntouch /tmp/telemetry\n",
    "usr/local/bin/deep_learning_container.py": "",
    "opt/amazon/openmpi/bin/mpirun": '#!/bin/bash\n/opt/amazon/openmpi/bin/mpirun.real --allow-run-as-root "$@"\n',
    "opt/amazon/openmpi/bin/mpirun.real": '#!/bin/sh\necho "mpirun.real (Open MPI) 4.1.7"\n',
    "etc/profile.d/zippy_efa.sh": "PATH=/opt/amazon/openmpi/bin:/opt/amazon/efa/bin:$PATH\n",
}
FILES: Final = {
    "etc/nccl.conf": "NCCL_DEBUG=INFO\nNCCL_SOCKET_IFNAME=^docker0,lo\n",
    "etc/bashrc": "# /etc/bashrc\nsource /usr/local/bin/bash_telemetry.sh\n",
    "root/.bashrc": "source /usr/local/bin/bash_telemetry.sh\n",
    "root/.ssh/id_rsa": "a key that all copies share\n",
    "root/.ssh/authorized_keys": "ssh-rsa AAAA a key that all copies share\n",
    "root/.ssh/config": "Host *\n  StrictHostKeyChecking no\n",
    "etc/ssh/ssh_config": "Include /etc/ssh/ssh_config.d/*.conf\n    StrictHostKeyChecking no\n",
    "etc/ssh/ssh_host_rsa_key": "a host key that all copies share\n",
    "etc/ld.so.conf.d/000_efa.conf": "/opt/amazon/openmpi/lib64\n/opt/amazon/efa/lib64\n",
    "etc/ld.so.conf.d/100_ofinccl.conf": "/opt/amazon/ofi-nccl/lib64\n",
    "etc/ld.so.conf.d/lib64.conf": "/usr/lib64\n",
    "etc/pip.conf": "[global]\nno-index = true\nfind-links = /stubs/wheels\n",
    "opt/amazon/efa_installed_packages": "# EFA installer version: 1.49.0\n",
    "opt/amazon/openmpi/etc/openmpi-mca-params.conf": (
        "# a comment\nhwloc_base_binding_policy = none\nrmaps_base_mapping_policy = slot\n"
    ),
    "stubs/packages": "".join(f"{name}\n" for name in AMAZON_LINUX),
}
COMPILED: Final = (
    *("opt/amazon/efa/lib64/libfabric.so.1", "usr/local/lib/libgdrapi.so.2"),
    *("opt/amazon/ofi-nccl/lib64/libnccl-net.so", "opt/amazon/ofi-nccl/lib64/libnccl-net-ofi.so"),
    *("usr/local/cuda/lib64/libcudart.so.13", "opt/amazon/openmpi/lib64/libmpi.so.40"),
)
NCCL: Final = {"mpi": "usr/lib64/libnccl.so.2", "pytorch": "opt/venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2"}
"""Maps each recipe to the path of NCCL in the recipe's base image. The stub contains Debian's Python 3.11; AWS's image contains
Python 3.12.
"""

_SETUP: Final = r"""
mv /usr/bin/tini-static /stubs/tini; rm -f /usr/bin/tini
ln -s libcudart.so.13 /usr/local/cuda/lib64/libcudart.so
# Open MPI 5 at AWS's path, as if it had never been selected
rm -rf /etc/gpumpi /etc/ld.so.conf.d/mpi.conf /usr/local/lib/python3*/dist-packages/mpi4py*
find /usr/local/bin -type l -lname '/opt/mpi/*' -delete
folder=$(readlink /opt/mpi); rm /opt/mpi
mv "$folder" /opt/amazon/openmpi5; ln -s /opt/amazon/openmpi5 "$folder"; ln -s lib /opt/amazon/openmpi5/lib64
cd /opt/amazon/openmpi5/bin; mv ompi_info ompi_info.real
printf '#!/bin/sh\n[ -e /stubs/no-cuda ] || echo mca:mpi:base:param:mpi_built_with_cuda_support:value:true\n' >ompi_info
chmod 0755 ompi_info
if [ "$1" = pytorch ]; then
  python3 -m venv --system-site-packages --without-pip /opt/venv
  mkdir -p /opt/venv/lib/python3.11/site-packages/torch /workspace
  touch /opt/venv/lib/python3.11/site-packages/torch/__init__.py
  printf '#!/bin/sh\nexec python3 -m torch "$@"\n' >/opt/venv/bin/torchrun; chmod 0755 /opt/venv/bin/torchrun
  touch /usr/local/bin/all_reduce_perf; chmod 0755 /usr/local/bin/all_reduce_perf
else
  ln -s /usr/bin/python3 /usr/local/bin/python3
fi
ldconfig
"""


def create_base_stub(folder: Path, recipe: str) -> None:
    """Create the stub of a recipe's base image in a folder."""
    for layer in list_layer_paths(build.ensure_image(DEBIAN, print)):
        layers.apply_layer(layer, folder)
    for path, text in {**SHIMS, **FILES}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
        (folder / path).chmod(0o755 if path in SHIMS else 0o644)
    for path in (*COMPILED, NCCL[recipe]):
        compile_library(folder / path)
    wheels = folder / "stubs/wheels"
    wheels.mkdir()
    for name in ("mpi4py", "py_spy"):
        for wheel in build.download_wheels().glob(f"{name}-*"):
            shutil.copy(wheel, wheels)
    _write_nccl_tests(folder, NCCL[recipe])
    result = root.run_in_root(folder, ["/bin/sh", "-ec", _SETUP, "setup", recipe], {}, build.download_wheels())
    assert result.returncode == 0, result.stderr


def compile_library(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-shared", f"-Wl,-soname,{path.name}", "-o", str(path), "-x", "c", os.devnull]
    subprocess.run(command, check=True)


def _write_nccl_tests(folder: Path, nccl: str) -> None:
    """Write a stub of nccl-tests' source archive. It contains a compiled program that is linked to MPI and NCCL."""
    work = folder / "stubs/nccl-tests"
    work.mkdir()
    (work / "main.c").write_text('#include <stdio.h>\nint main(void) { puts("all_reduce"); return 0; }\n')
    libraries = [str(folder / "opt/amazon/openmpi/lib64/libmpi.so.40"), str(folder / nccl)]
    command = ["cc", "-Wl,--no-as-needed", "-o", str(work / "all_reduce_perf"), str(work / "main.c"), *libraries]
    subprocess.run(command, check=True)
    with tarfile.open(folder / "stubs/nccl-tests.tar.gz", "w:gz") as archive:
        archive.add(work / "all_reduce_perf", "nccl-tests/all_reduce_perf")
    shutil.rmtree(work)


def write_image(folder: Path, recipe: str, layout: Path) -> None:
    """Write the root as an image in OCI layout."""
    tar = layout.with_suffix(".tar")
    layers.write_difference(folder, {}, tar)
    write_layout(layout, [tar], SETTINGS[recipe], build.ARCHITECTURES[os.uname().machine])
    tar.unlink()


def pin_stubs(context: Path, folder: Path) -> None:
    """In a build context, replace the checksums of the downloads with the checksums of their stubs."""
    versions = context / "amis/versions.pkrvars.hcl"
    text = versions.read_text()
    for key, stub in {"nccl_tests_sha256": "nccl-tests.tar.gz", "tini_static_sha256": "tini"}.items():
        checksum = hashlib.sha256((folder / "stubs" / stub).read_bytes()).hexdigest()
        text, count = re.subn(rf'^{key}="\w+"$', f'{key}="{checksum}"', text, flags=re.MULTILINE)
        assert count == 1, key
    versions.write_text(text)
