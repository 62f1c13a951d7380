"""What a stack costs: prices from AWS's Price List or from a dated snapshot, and the bill of a planned cluster."""
