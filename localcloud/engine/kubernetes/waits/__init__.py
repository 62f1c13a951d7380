"""When an object of a kind is ready, as the official provider sees it.

https://www.pulumi.com/registry/packages/kubernetes/#await-logic, https://github.com/pulumi/pulumi-kubernetes/tree/master/provider/pkg/await
"""
