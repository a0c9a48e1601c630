"""What owners do with sessions: create, name, mark, switch, rate, delete, keep."""
