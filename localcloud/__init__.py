"""The local cloud: emulates on one machine everything that the product runs on. `infra/` does not know about it."""
