"""Benchmarks, which are not part of the tests. docs/measurements contains their results and targets."""
