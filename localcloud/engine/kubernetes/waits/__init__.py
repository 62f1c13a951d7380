"""Readiness checks for each kind, as defined by the official provider.

https://www.pulumi.com/registry/packages/kubernetes/#await-logic
https://github.com/pulumi/pulumi-kubernetes/tree/master/provider/pkg/await
"""
