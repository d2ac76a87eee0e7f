"""Contracts are tests, though their files are not named so: their asserts speak as plainly."""

import pytest

for topic in ("contract", "lists", "push", "receipts", "tasks", "turns"):
    pytest.register_assert_rewrite(f"tests.conformance.store_{topic}")
