# `setup` of an MPI job.
run "$@"
exit "$code"
