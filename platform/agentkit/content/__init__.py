"""What agents receive and say: messages, parts, files and emissions."""
