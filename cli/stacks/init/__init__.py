"""`init`: ask a few questions and write a stack file."""
