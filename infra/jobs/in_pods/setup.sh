# `setup` of a job: a command that runs once, before the ranks.
run "$@"
exit "$code"
