"""The ways to time a call, one file each."""
