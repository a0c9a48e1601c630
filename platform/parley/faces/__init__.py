"""Building blocks of operators' pages, commands and drawings. Independent of Parley."""
