"""The documentation's code is executed."""
