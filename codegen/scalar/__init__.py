"""Scalar expressions around the handlers."""
