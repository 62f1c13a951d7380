"""`dashboard`: a page on loopback. `reading` runs the queries, `model` builds the data, and `server` serves the page."""
