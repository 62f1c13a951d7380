"""The local AWS: moto's backends, plus what moto lacks and clusters need.

Start it as a process with `python -m localcloud.aws`, or in one's own process:

    localcloud.aws.extend.install()
    with moto.mock_aws(): ...
"""
