"""Pictures of plans: pure functions from plain data to what templates draw as SVG. They ask no database."""
