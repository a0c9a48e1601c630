"""Previews of files as safe HTML, of bounded size."""
