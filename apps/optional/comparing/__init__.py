"""One message to two or more agents, models or versions; people choose the answer to go on with, and that is counted."""
