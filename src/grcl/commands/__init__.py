"""The commands of the command line, each in words, checks and one call."""
