"""What pages of operators, their commands and pictures are built from: cells, read-only records, fields, drawings.

It knows Django and nothing of Parley.
"""
