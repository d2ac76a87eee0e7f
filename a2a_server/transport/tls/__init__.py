"""TLS of the doors: files, and what is wrong with them.

1. `certificates.py` reads an operator's PEM files, and says what is wrong with which of them.
2. `revocations.py` reads lists of certificates that have been revoked.
3. `files.py` holds what both doors use of all these files, and reads them again when they change.
"""
