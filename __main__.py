"""`pulumi up` enters here."""

from infra.program import run

run()
