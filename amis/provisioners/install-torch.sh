#!/usr/bin/env bash
# PyTorch of the distribution, without CUDA: for CPU jobs and tests. On GPUs take PyTorch's own image; launcher torchrun asks for no more.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

# Debian's is linked with OpenCV, which brings drivers of graphics cards; they and PyTorch's own tests are a third of all, and never loaded.
excluded=/etc/dpkg/dpkg.cfg.d/without-graphics
trap 'rm -f "$excluded"' EXIT
for path in '/usr/lib/*/dri/*' '/usr/lib/*/libLLVM-*' '/usr/lib/*/libz3.so*' '/usr/lib/*/mfx/*' '/usr/lib/python3/dist-packages/torch/bin/test_*'; do
  echo "path-exclude=$path"
done >"$excluded"
"$here/install-packages.sh" python3-torch
python3 -c 'import torch.distributed; assert torch.distributed.is_gloo_available()'
