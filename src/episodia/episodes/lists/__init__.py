"""Lists of episodes: questions about a column of all episodes at once."""
