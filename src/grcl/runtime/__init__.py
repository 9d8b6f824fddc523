"""What a run needs besides mathematics: processes, files, seeds, progress."""
