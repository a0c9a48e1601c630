"""What stands around the core: a package for each feature, each a Django app of its own."""
