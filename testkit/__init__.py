"""What tests and benches share: clusters, projects and clients of a local cloud, and waits. It imports nothing from tests/."""
