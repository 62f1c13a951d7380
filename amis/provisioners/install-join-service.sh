#!/usr/bin/env bash
# Install the join service: the nodes of an EC2 cluster find and trust each other through this service. The service
# starts at every boot of a node on which user data wrote /etc/gpumpi/cluster.json.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

"$here/install-packages.sh" ca-certificates openssh-client python3 python3-pip
install -d -m 0755 /etc/gpumpi /opt/gpumpi/join/gpumpi_join
install -m 0644 "$here"/../join/gpumpi_join/*.py /opt/gpumpi/join/gpumpi_join/
if ! cmp --silent "$here/../frameworks/boto3.txt" /opt/gpumpi/join/boto3.txt; then
  rm -rf /opt/gpumpi/join/packages
  PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --no-deps --only-binary :all: --require-hashes \
    --requirement "$here/../frameworks/boto3.txt" --target /opt/gpumpi/join/packages
  install -m 0644 "$here/../frameworks/boto3.txt" /opt/gpumpi/join/boto3.txt
fi
cat >/usr/local/bin/gpumpi-join <<'END'
#!/bin/sh
PYTHONPATH=/opt/gpumpi/join:/opt/gpumpi/join/packages exec /usr/bin/python3 -m gpumpi_join "$@"
END
chmod 0755 /usr/local/bin/gpumpi-join
install -m 0644 "$here/../files/gpumpi-join.service" /etc/systemd/system/gpumpi-join.service
systemctl enable gpumpi-join.service
