"""`dashboard`: a page on loopback. `reading` runs the queries, `model` makes the page's data, and `server` serves them."""
