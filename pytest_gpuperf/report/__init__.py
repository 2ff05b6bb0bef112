"""Records turned into text; nothing here writes to a terminal."""
