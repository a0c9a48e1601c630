"""Projects: sessions with shared instructions, files and a usual agent. It may be left out."""
