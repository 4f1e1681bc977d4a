"""A template of a plug-in: copy this folder, rename the package, and keep what you need."""
