"""Reading the record: finding, following, synchronizing, and what a caller may see."""
