"""All decisions: settings and facts in, specs for the components out. Pure."""
