"""Functions on arrays that two or more methods share."""
