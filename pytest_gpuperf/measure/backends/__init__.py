"""The devices that calls run on."""
