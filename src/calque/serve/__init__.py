"""A server for trained runs, with LibreTranslate's interface: `calque serve`. Needs `calque[serve]`."""
