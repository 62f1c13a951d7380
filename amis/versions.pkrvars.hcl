# Versions and checksums for AMIs, job images and on-premises nodes. Write `key="value"` without spaces around the equals
# sign, because the provisioners `source` this file. Packer's templates read the names of base AMIs and the versions in
# tags from it.

# Debian suite of the job image; the build installs the suite's security updates.
debian_suite="bookworm"
# Debian suite of images that need PyTorch 2.
debian_torch2_suite="trixie"

# Open MPI wheels from PyPI, which install in seconds but lack CUDA. The CUDA-aware Open MPI is compiled, see below.
openmpi4_version="4.1.8"
openmpi4_wheel_sha256="bf78b707021e7709dc9c78713d00bf23eafaabb6967786f2f4cda8f2ce2643a3"
openmpi5_version="5.0.11"
openmpi5_wheel_sha256="838de0ec7fd719af19cde664cd6bf76eb170ed4769c279040c2db434d6db11b9"

mpich_version="5.0.2"
mpich_wheel_sha256="8fed465ebff269ea2ebac179a25de02671ddf8df476e0f115be089015015cfd4"

# The last version with its own libfabric: from 2021.17 on, the wheel requires a package that is not on PyPI. The MPI
# operator is also tested with this version.
intel_mpi_version="2021.13.1"
intel_mpi_wheel_sha256="5404adc6af35a651067e69ae2a65db05366a0fbfff14a3415d311b1d3566d177"

# Each wheel works with every MPI. The first wheel is for CPython 3.11 (Debian 12), the others for 3.9 (Amazon Linux 2023),
# 3.10 and 3.12 (Ubuntu 22.04, 24.04), and 3.13 (AWS's base image).
mpi4py_version="4.1.2"
mpi4py_wheel_sha256="de484475b80f9e1ffe98cb85e1b776eb9f42bb73ae4d79449d42953f80025bf4"
mpi4py_other_sha256="5eb46b74c0f0f354af441906dda452bbf8565821dae15373a78ab02c02c9f97c 1b3fc4f09e9be07a8ab9970a1f426e31b3dadb93f0bebb0559581b601aec9f7a 00f4cce8999d19f35243c3442ea22debbe3336f69c309cd5d3176df4e51c717a 085e0cb05427398fe2281856f27a87984b9f234cd6d98a2a384a6fbfe679a56f"

# Prints the Python stacks of hung ranks. It is a static program: the wheels for x86 and Arm work with any Python.
py_spy_version="0.4.3"
py_spy_wheel_sha256="8a4277225f470d394a85cca0cdd944bef87f0097b6f20150a6dd3ac2e92806b8"
py_spy_other_sha256="bbcec46930d464b3bfc142d6d02ade4dd8ad5627823263b3eff0280e80c7c132"

# Open MPI's source, built --with-cuda. The second version of each series is in Debian's archive, for builds that cannot
# fetch the first. 5.0.8 is the newest version with a published checksum (Spack's package, read 2026-11-23); 5.0.10 and
# 5.0.11 exist.
openmpi4_source_version="4.1.8"
openmpi4_source_sha256="466f68e3132a1dc02710cc2011fafced8336d98359fa2dae4dddcfd5719f12a9"
openmpi4_debian_version="4.1.4"
openmpi4_debian_sha256="ddaee7dbdb01eb4fab1fda5b5e03e8bbff026711806c095c1f39bb410f99f263"
openmpi5_source_version="5.0.8"
openmpi5_source_sha256="53131e1a57e7270f645707f8b0b65ba56048f5b5ac3f68faabed3eb0d710e449"
openmpi5_debian_version="5.0.7"
openmpi5_debian_sha256="97f10c04e9b9a1771db3fd005009e4c07afa3ce739f940e41eb0fc7397cb9473"

# CUDA headers for compiling Open MPI on a machine without the CUDA toolkit.
cuda_headers_version="12.9.79"
cuda_headers_wheel_sha256="25bba2dfb01d48a9b59ca474a1ac43c6ebf7011f1b0b8cc44f54eb6ac48a96c3"

# Base AMIs of EC2 clusters, by exact name; owner 898082745236. NOT VERIFIED: users of these AMIs list the names in
# public repositories, read 2026-11-22. The AMIs have driver 595.91.07, CUDA 13.2 and EFA 1.50.0. AWS releases new AMIs
# weekly and lists them in https://docs.aws.amazon.com/dlami/latest/devguide/appendix-ami-release-notes.html
dlami_ubuntu_24_04="Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) 20261006"
dlami_ubuntu_22_04="Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) 20260929"
dlami_amazon_linux_2023="Deep Learning Base OSS Nvidia Driver GPU AMI (Amazon Linux 2023) 20260916"

# The oldest versions that the builds accept in a base AMI. EFA: aws-ofi-nccl before 1.20 hangs in large broadcasts between nodes;
# EFA 1.49 fixes this (aws/deep-learning-containers#6668). Driver: 580 is the oldest version in AWS's AMIs of 2026.
nvidia_driver_minimum="580"
efa_minimum="1.49.0"

# On-premises nodes: NVIDIA's repository and the fingerprint of the key that signs its packages. Driver 580 is the
# last one that supports V100. NOT VERIFIED on a machine with a GPU; EKS's AMI of 2026-07-14 has 580.159.03.
nvidia_key_fingerprint="EB693B3035CD5710E231E123A4B469963BF863CC"
nvidia_driver_version="580.126.20"

# For base AMIs without GDRCopy: the Ubuntu 24.04 AMI does not list it, and has kernel 7.0. Before 2.5.2, GDRCopy does
# not compile for kernels from 6.15 on (its CHANGELOG.md). The checksum was computed on 2026-11-25 from `git archive` of
# the tag. The same method reproduces the published checksum of 2.5.1 (Spack's package). NOT VERIFIED by a download or
# on a GPU.
gdrcopy_version="2.6"
gdrcopy_sha256="c9eaf0593567ac5765d04c48cf7923dacb2644240b35bb5f025edb3bde1d5b4f"

# EFA installer for the EKS AMI: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-changelog.html lists it with
# the date 2026-10-22. install-efa.sh verifies its signature. The fingerprint is in
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html, read 2026-08. NOT VERIFIED by a download.
efa_version="1.51.0"
efa_key_fingerprint="4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC"

# For job images. The checksum was computed from `git archive` of the tag. For version 2.17.6, this method reproduces
# the checksum in Spack's package. NOT VERIFIED by a download, 2026-11-23.
nccl_tests_version="2.19.6"
nccl_tests_sha256="adbd3d27ba6c00bd7b7cf98cc8811c6ad860427ecd5de59527466b21472c0d93"

# For job images on Amazon Linux, which has no tini package. Public Dockerfiles have the same checksum. NOT VERIFIED
# by a download, 2026-11-23.
tini_version="0.19.0"
tini_static_sha256="c5b0666b4cb676901f90dfcb37106783c5fe2077b04590973b885950611b30ee"

# The commit to which the version's tag points.
efs_utils_version="2.4.1"
efs_utils_commit="2341e82db7e1dec6060ede910d16a8a446f3597f"

# On-premises nodes: the newest Kubernetes version in infra/versions.py that we have run, from pkgs.k8s.io, and the
# fingerprint of the key that signs its packages.
kubernetes_version="1.35.0"
kubernetes_key_fingerprint="DE15B14486CD377B9E876E1A234654DA9A296436"
# The version that kubeadm 1.35 uses.
pause_version="3.10.1"
# From NVIDIA's repository libnvidia-container, which has its own key. NOT VERIFIED on a machine with a GPU.
nvidia_container_key_fingerprint="C95B321B61E88C1809C4F759DDCAE044F796ECB0"
nvidia_container_toolkit_version="1.18.0-1"
# The pod network. The checksum is that of the manifest in the tagged source tree.
flannel_version="0.28.9"
flannel_sha256="e875824be2f552b45711dbda91af81b17eb961d00025d914d9fef18fad8f09c0"
