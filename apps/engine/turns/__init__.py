"""What happens while a run executes: the handler, what it says, asks, pays, calls and keeps."""
