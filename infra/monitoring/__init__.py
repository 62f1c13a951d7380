"""What Prometheus scrapes, when it alerts, and what dashboards show: one model, rendered by pure functions.

model.py        alerts, parts of the platform, and what a cluster has of them
faults.py       one alert per fault of nodes
parts.py        one alert per part of the platform
rules.py        -> Prometheus's rule file
scrape.py       -> Prometheus's and Alertmanager's configuration
dashboards.py   the dashboards, as panels with queries
grafana.py      -> Grafana's JSON
runbooks.py     -> "What the alerts mean" in docs/operations.md
"""
