"""Pictures and figures of trained models."""
