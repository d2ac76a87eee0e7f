"""The doors of older versions, on the requests of 1.0: paths, methods, cards and errors of their own."""
