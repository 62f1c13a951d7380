"""Delete the log group that EKS recreated after `pulumi destroy`, so that the next `pulumi up` of the stack can create it.

EKS delivers the last audit logs of a deleted cluster late, and creates the log group for them again: without
retention, key or tags (docs/adr/0047).
"""

from infra.facts.clients import Clients, Denied, query
from infra.facts.model import Facts, FactsError


def delete(log_group: str, facts: Facts) -> None:
    """Raises FactsError if the log group cannot be deleted."""
    clients = Clients(facts.region)
    try:
        query(facts.region, lambda: _delete(clients, log_group))
    except Denied as denied:
        problem = f"{log_group} is left from a deleted cluster, but {facts.caller.arn} may not call {denied}"
        fix = f"Allow it, or run: aws logs delete-log-group --region {facts.region} --log-group-name {log_group}"
        raise FactsError(f"{problem}. {fix}") from None


def _delete(clients: Clients, log_group: str) -> None:
    try:
        clients.logs.delete_log_group(logGroupName=log_group)
    except clients.logs.exceptions.ResourceNotFoundException:
        return
