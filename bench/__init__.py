"""Benchmarks. Their figures and goals are in docs/measurements.md; nothing here is a test."""
