"""Pure functions on arrays: the mathematics that two methods share or that would bury one."""
