"""What operators work with: the cells of tables, read-only records, fields for lists of words, and commands.

The admin modules and the commands of the apps are built from this; it knows Django and nothing of Parley.
"""
