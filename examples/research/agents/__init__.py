"""The agents of the research pipeline. Each says what it was given, what it made of it, and by which rule."""
