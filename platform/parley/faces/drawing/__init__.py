"""Server-side drawings: graph layout, time axis, SVG files."""
