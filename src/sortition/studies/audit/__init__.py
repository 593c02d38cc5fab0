"""Audits of run folders and federations, and explanations of single choices."""
