"""What the command line returns to the shell."""

OK = 0
USAGE = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells count it
BROKEN_PIPE = 141  # 128 + SIGPIPE
