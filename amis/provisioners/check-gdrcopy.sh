#!/usr/bin/env bash
# Check GDRCopy: its kernel module for this kernel, and its library in the linker's search path.
set -o errexit -o nounset -o pipefail

if ! modinfo gdrdrv >/dev/null 2>&1 || [[ $(ldconfig --print-cache) != *libgdrapi.so.2* ]]; then
  echo "GDRCopy is incomplete: the module gdrdrv or libgdrapi.so.2 is missing" >&2
  exit 1
fi
echo "GDRCopy: gdrdrv $(modinfo --field version gdrdrv)"
