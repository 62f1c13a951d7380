"""CloudWatch Logs."""

from tests.engine.cases.case import Case, names, value

CASES = [
    Case(
        "aws:cloudwatch/logGroup:LogGroup",
        make_inputs=lambda world: {
            "name": f"/aws/eks/{world.name('it')}/cluster",
            "retentionInDays": 90,
            "kmsKeyId": world.logs_key("one"),
            "skipDestroy": False,
            "tags": {"Name": "it"},
        },
        needed=names(),
        instead=(lambda world: {"namePrefix": f"/aws/eks/{world.name('it')}"},),
        updates={
            "retentionInDays": value(30),
            "skipDestroy": value(True),
            "tags": value({"Name": "other"}),
        },
        removals=names("retentionInDays", "tags"),
        replaces={"name": value("/aws/eks/other/cluster")},
        drift=lambda world, id: world.client("logs").delete_retention_policy(logGroupName=id),
        drifted=names("retentionInDays"),
    ),
]
