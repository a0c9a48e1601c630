"""What operators set while Parley runs: language models, tool servers, private addresses, and pauses."""
