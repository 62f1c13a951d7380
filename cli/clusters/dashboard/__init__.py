"""`dashboard`: serve a page about a cluster on loopback. `reading` runs the queries, `model` builds the data, and
`server` serves the page.
"""
