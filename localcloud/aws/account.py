"""What an account has before anybody makes anything in it."""

ACCOUNT = "123456789012"
USER_NAME = "local-engineer"
USER_ARN = f"arn:aws:iam::{ACCOUNT}:user/{USER_NAME}"
ACCESS_KEY_ID = "AKIALOCALCLOUDENGINE"
