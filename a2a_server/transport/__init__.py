"""One pipeline, several doors."""
