"""Managed node groups: calls, checks, launch, scaling, health and updates."""
