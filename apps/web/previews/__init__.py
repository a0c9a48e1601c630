"""A look at a file as safe HTML: text in its encoding, tables, trees, frames. It reads no more than it shows."""
