"""The program, stated: joint (Pyomo), pattern, and their way to arrays."""
