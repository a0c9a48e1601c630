"""The admin's first page, and the pages of analytics."""
