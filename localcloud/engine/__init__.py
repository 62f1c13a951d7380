"""What the Pulumi engine talks to on this machine: a language host and a stand-in for the AWS resource provider."""
