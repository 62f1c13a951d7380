"""Find the actions for which a request needs permission, with their resources: the operation's own action and its
dependent actions.
"""

from collections.abc import Iterator

from localcloud.aws.call import Call
from localcloud.aws.permissions import actions, dependent, resources
from localcloud.aws.permissions.need import Need
from localcloud.aws.s3 import actions as s3


def find_required_permissions(call: Call) -> Iterator[Need]:
    if call.service in ("s3", "s3control"):
        yield from s3.needs(call)
        return
    action = actions.action_name(call)
    yield Need(action, resources.find_arns(call, action), tag_specifications=resources.find_tag_specifications(call))
    yield from dependent.find_dependent_permissions(call)
