"""Knowledge: collections of files and pages that agents search, with citations that open at the passage."""
