"""Facts: what AWS reports at plan time. Only this package queries AWS for planning; callers get plain values."""
