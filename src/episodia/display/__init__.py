"""Common parts of all displays: tables for notebooks, and figures of matplotlib."""
