"""Running plans: a run, its steps and their transitions, and the engine that carries them out."""
