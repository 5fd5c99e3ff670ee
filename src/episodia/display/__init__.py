"""What all displays share: tables for notebooks, and figures of matplotlib."""
