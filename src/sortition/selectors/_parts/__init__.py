"""Pure functions on arrays: the mathematics that two methods share, or that is too long for the method's file."""
