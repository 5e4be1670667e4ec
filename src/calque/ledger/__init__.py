"""Measured figures as entries, one JSON file each, and the page that shows them."""
