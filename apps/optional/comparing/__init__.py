"""One message to several agents, models or versions. People choose the answer to go on with, and that is counted."""
