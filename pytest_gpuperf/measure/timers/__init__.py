"""The ways to time a call."""
