"""Launchers: one module each, with one subclass of `infra.jobs.placed.Launcher`."""
