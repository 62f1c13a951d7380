#!/bin/sh
# What ssh takes for a known_hosts file: the job's own public key, for every host.
exec sed 's/^/* /' "$HOME/.ssh/id_rsa.pub"
