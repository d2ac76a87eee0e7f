"""Contracts are tests, though their files are not named so: their asserts speak as plainly."""

import pytest

for topic in ("contract", "holdings", "lists", "push", "receipts", "retention", "sessions", "tasks", "turns"):
    pytest.register_assert_rewrite(f"tests.conformance.store_{topic}")
