"""The local cloud: everything the product runs on, on one machine. Nothing under `infra/` knows of it."""
