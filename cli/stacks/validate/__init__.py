"""`validate`: report every problem of a stack file, job file or manifest."""
