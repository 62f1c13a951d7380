"""Local AWS emulator: moto's backends, extended with AWS behavior that clusters need but moto lacks.

Run it as a separate process with `python -m localcloud.aws`, or in your own process:

    localcloud.aws.extend.extend_moto()
    with moto.mock_aws(): ...
"""
