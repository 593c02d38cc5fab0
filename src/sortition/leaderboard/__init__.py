"""A frozen suite of federations on which all methods are compared, and the page that says where each stands."""
