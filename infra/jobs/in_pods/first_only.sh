# Runs a command in the first pod of a job; the others go on, and wait for the first one later.
set -eu
[ "$JOB_COMPLETION_INDEX" = 0 ] || exit 0
exec "$@"
