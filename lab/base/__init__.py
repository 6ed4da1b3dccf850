"""What everything may use: files, columns, formatting, errors, progress and configuration text."""
