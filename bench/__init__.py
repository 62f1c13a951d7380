"""Benchmarks. docs/measurements.md has their results and goals; none of them is a test."""
