"""Mistakes in stack files, by topic. Each case contains one mistake and the full message that reports it."""
