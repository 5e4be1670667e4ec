"""The steps of a run put together: train, tune, translate; the Python API."""
