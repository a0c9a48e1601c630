"""Sessions that go on from a point of another: forks, edits and branch points."""
