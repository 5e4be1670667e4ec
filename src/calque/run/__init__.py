"""The run folder and the model file."""
