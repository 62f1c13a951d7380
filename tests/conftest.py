"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# How fast examples come says something of the machine, which other tests load too; no test is timed.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
