raise ImportError("todo")
