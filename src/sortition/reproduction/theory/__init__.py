"""Theory as executable checks: bias, enumeration of all cohorts, heterogeneity, stratification."""
