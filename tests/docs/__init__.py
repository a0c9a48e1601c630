"""What the pages show is executed."""
