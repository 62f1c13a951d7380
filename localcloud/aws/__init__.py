"""The local AWS: moto's backends, plus what clusters need and moto lacks.

Start it as a process with `python -m localcloud.aws`, or run it in your own process:

    localcloud.aws.extend.install()
    with moto.mock_aws(): ...
"""
