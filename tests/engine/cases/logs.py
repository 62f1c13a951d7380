"""CloudWatch Logs."""

from tests.engine.cases.case import Case, make_constant, property_names

CASES = [
    Case(
        "aws:cloudwatch/logGroup:LogGroup",
        make_inputs=lambda world: {
            "name": f"/aws/eks/{world.name('it')}/cluster",
            "retentionInDays": 90,
            "kmsKeyId": world.create_logs_key("one"),
            "skipDestroy": False,
            "tags": {"Name": "it"},
        },
        needed=property_names(),
        instead=(lambda world: {"namePrefix": f"/aws/eks/{world.name('it')}"},),
        updates={
            "retentionInDays": make_constant(30),
            "skipDestroy": make_constant(True),
            "tags": make_constant({"Name": "other"}),
        },
        removals=property_names("retentionInDays", "tags"),
        replaces={"name": make_constant("/aws/eks/other/cluster")},
        drift=lambda world, id: world.client("logs").delete_retention_policy(logGroupName=id),
        drifted=property_names("retentionInDays"),
    ),
]
