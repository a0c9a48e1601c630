"""Features around the core: each package is a Django app of its own."""
