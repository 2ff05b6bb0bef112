"""The sub-commands of `gpuperf`, one module each with `add_arguments(parser)` and `run(arguments) -> Answer`."""
