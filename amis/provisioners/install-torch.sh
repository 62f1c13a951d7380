#!/usr/bin/env bash
# The distribution's PyTorch, without CUDA, for CPU jobs and tests. For GPUs use PyTorch's own image, which is all that
# launcher torchrun needs.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

# Debian's PyTorch depends on OpenCV, which pulls in graphics drivers. These and PyTorch's own tests are a third of
# the size and are never loaded.
excluded=/etc/dpkg/dpkg.cfg.d/without-graphics
trap 'rm -f "$excluded"' EXIT
for path in '/usr/lib/*/dri/*' '/usr/lib/*/libLLVM-*' '/usr/lib/*/libz3.so*' '/usr/lib/*/mfx/*' '/usr/lib/python3/dist-packages/torch/bin/test_*'; do
  echo "path-exclude=$path"
done >"$excluded"
"$here/install-packages.sh" python3-torch
python3 -c 'import torch.distributed; assert torch.distributed.is_gloo_available()'
