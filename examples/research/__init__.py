"""A small research pipeline, from the literature to a report. The data are made up, the computations are real."""
