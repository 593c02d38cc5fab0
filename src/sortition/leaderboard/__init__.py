"""A frozen suite of federations on which all methods are compared, and where each of them stands."""
