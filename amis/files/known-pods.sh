#!/bin/sh
# Print a known_hosts file that maps every host to the job's public key.
exec sed 's/^/* /' "$HOME/.ssh/id_rsa.pub"
