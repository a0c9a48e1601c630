"""A research pipeline in small, from the literature to a report: the data are made up, the computations real."""
