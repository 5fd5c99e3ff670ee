"""The columnar recorder: vector steps of many lanes, and the episodes that view them."""
