"""Finding and adopting what an interrupted Pulumi operation left behind in AWS."""
