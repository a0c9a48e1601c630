"""The Report agent makes a readable report from a CSV file."""
