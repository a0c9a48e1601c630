"""The Report agent: from a CSV file to a report that people read."""
