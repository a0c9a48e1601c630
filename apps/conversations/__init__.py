"""Sessions for people: pages, client API, live, forks, queue, search, sharing, uploads."""
