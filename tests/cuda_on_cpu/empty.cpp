// A library needs a source of its own; all it holds comes from others.
