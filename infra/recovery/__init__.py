"""Find and adopt resources that an interrupted Pulumi operation left behind in AWS."""
