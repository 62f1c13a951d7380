"""`scripts/cluster capacity`: find GPU capacity, and buy Capacity Blocks."""
