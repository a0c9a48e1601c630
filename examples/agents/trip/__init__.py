"""A trip in four small steps, each an agent: weather, flight, hotel, itinerary. All of it is made up."""
