"""What comes out of a run: the accuracy matrix R, and the tables, figures and report made from it."""
