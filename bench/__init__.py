"""Benchmarks, which are not part of the tests. docs/measurements.md contains their results and targets."""
