"""One rival a file: each does one EM pass, or one update, from given parameters."""
