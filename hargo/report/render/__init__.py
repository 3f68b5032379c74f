"""The report's sections as Markdown and as one HTML page."""
