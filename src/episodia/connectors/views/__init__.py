"""Views: which steps of which column a module sees beside each step."""
