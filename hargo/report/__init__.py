"""From a study's results to tables, figures, warnings and pages."""
