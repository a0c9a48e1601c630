"""Clippings: texts that agents keep for people."""
