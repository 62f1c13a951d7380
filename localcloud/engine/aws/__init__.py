"""An emulator of the AWS resource provider: its resource handlers work on the local AWS."""
