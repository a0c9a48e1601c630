"""What operators' pages are made of: the cells of their tables, read-only records, and fields for lists of words.

The admin modules of the apps are built from this; it knows Django's admin and nothing of Parley.
"""
