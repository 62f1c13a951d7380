"""Measurements: seconds are goals, written into docs/measurements.md; nothing here is a test."""
