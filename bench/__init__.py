"""`make bench`: what GRCL costs, against the limit and against what a user would take instead, as ratios."""
