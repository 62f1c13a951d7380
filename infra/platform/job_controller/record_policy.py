"""Admission policy: only the job controller writes records of jobs."""

from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes

from infra.naming import KUBE_SYSTEM, RECORD_LABEL

NAME: Final = "gpumpi-records"
KUBERNETES_CONTROLLERS: Final = (
    f"system:serviceaccount:{KUBE_SYSTEM}:generic-garbage-collector",
    "system:kube-controller-manager",
)
"""Users as which Kubernetes removes the finalizer of an object that is deleted in the foreground: the second one if the
controllers have no service accounts of their own.
https://kubernetes.io/docs/concepts/architecture/garbage-collection/#foreground-deletion"""
_REFUSAL: Final = (
    f"only the job controller may write a ConfigMap with the label {RECORD_LABEL}, which marks the record of a job. "
    "Remove the label; to delete a record, use `scripts/cluster delete JOB`"
)


def create_record_policy(name: str, writer: str, options: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    """Create the policy and its binding. `writer` is the user name of the job controller.

    Everyone else may delete records, as far as RBAC allows it, but may not create or change them. This includes
    administrators: they can delete the binding.
    """
    policy = kubernetes.admissionregistration.v1.ValidatingAdmissionPolicy(
        name, metadata={"name": NAME}, spec=_build_policy_spec(writer), opts=options
    )
    binding = kubernetes.admissionregistration.v1.ValidatingAdmissionPolicyBinding(
        f"{name}-binding",
        metadata={"name": NAME},
        spec={"policy_name": NAME, "validation_actions": ["Deny"]},
        opts=pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(depends_on=[policy])),
    )
    return [policy, binding]


def _build_policy_spec(writer: str) -> Any:
    """https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/"""
    writers = ", ".join(f"'{user}'" for user in (writer, *KUBERNETES_CONTROLLERS))
    return {
        "failure_policy": "Fail",
        "match_constraints": {
            # Selects a request if the object has the label before or after it. So the API server evaluates no expression
            # for other ConfigMaps.
            "object_selector": {"match_expressions": [{"key": RECORD_LABEL, "operator": "Exists"}]},
            "resource_rules": [
                {"api_groups": [""], "api_versions": ["*"], "resources": ["configmaps"], "operations": ["CREATE", "UPDATE"]}
            ],
        },
        "validations": [{"expression": f"request.userInfo.username in [{writers}]", "message": _REFUSAL, "reason": "Forbidden"}],
    }
