"""The program in its exact and relaxed forms: one module each."""
