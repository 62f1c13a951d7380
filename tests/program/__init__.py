"""Tests of the program under Pulumi's mocks."""

import warnings

with warnings.catch_warnings():  # the SDK warns about its own deprecated names on the first access to a service
    warnings.simplefilter("ignore", DeprecationWarning)
    import pulumi_aws

    LOADED = [pulumi_aws.ec2.Vpc, pulumi_aws.s3.Bucket, pulumi_aws.iam.Role]
