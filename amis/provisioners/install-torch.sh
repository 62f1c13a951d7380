#!/usr/bin/env bash
# Install the distribution's PyTorch, without CUDA, for CPU jobs and tests. For GPUs, use PyTorch's own image: launcher
# torchrun needs nothing else.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

# Debian's PyTorch depends on OpenCV or on ROCm, which pull in graphics drivers and compilers. These and PyTorch's own
# tests make up a third of the size and are never loaded.
excluded=/etc/dpkg/dpkg.cfg.d/without-graphics
trap 'rm -f "$excluded"' EXIT
for path in '/usr/lib/*/dri/*' '/usr/lib/*/libLLVM*' '/usr/lib/llvm-*' '/usr/lib/*/libamd*' '/usr/lib/*/mfx/*' \
  '/usr/lib/libtorch-test/*' '/usr/lib/python3/dist-packages/torch/bin/test_*'; do
  echo "path-exclude=$path"
done >"$excluded"
"$here/install-packages.sh" python3-torch

# Debian builds PyTorch without libuv. Programs respect USE_LIBUV=0, but PyTorch 2's torchrun requests libuv regardless.
torch=/usr/lib/python3/dist-packages/torch/distributed
if grep --quiet USE_LIBUV "$torch/rendezvous.py" && ! grep --quiet 'TCPStore(use_libuv' "$torch/rendezvous.py"; then
  sed --in-place 's/^\( *multi_tenant=True\),\?$/\1, use_libuv=False,/' \
    "$torch"/elastic/rendezvous/{c10d_rendezvous_backend,dynamic_rendezvous,static_tcp_rendezvous}.py
  sed --in-place '0,/return TCPStore(/s//return TCPStore(use_libuv=False,/' "$torch/rendezvous.py"
fi
python3 -c 'import torch.distributed; assert torch.distributed.is_gloo_available()'
