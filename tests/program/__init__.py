"""The program under Pulumi's mocks."""

import warnings

with warnings.catch_warnings():  # the SDK warns of its own old names when a service is first looked at
    warnings.simplefilter("ignore", DeprecationWarning)
    import pulumi_aws

    LOADED = [pulumi_aws.ec2.Vpc, pulumi_aws.s3.Bucket, pulumi_aws.iam.Role]
