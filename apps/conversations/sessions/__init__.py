"""What owners do with sessions: create, rename, archive, mark, switch, rate, delete."""
