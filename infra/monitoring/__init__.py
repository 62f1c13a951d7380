"""Scrape targets, alerts and dashboards, rendered by pure functions from one model.

model.py        the data model: alerts, parts of the platform, features of a cluster
faults.py       one alert per node fault
parts.py        one alert per part of the platform
rules.py        -> Prometheus's rule file
scrape.py       -> Prometheus's and Alertmanager's configuration
dashboards.py   the dashboards, as panels with queries
grafana.py      -> Grafana's JSON
runbooks.py     -> docs/runbooks: one page per alert
"""
