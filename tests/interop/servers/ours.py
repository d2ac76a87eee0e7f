"""`a2a-server`, but its card offers push notifications: what is behind their operations is there, delivery is not."""

from __future__ import annotations

from functools import partial
from unittest import mock

from a2a_server import serve
from a2a_server.__main__ import main
from a2a_server.operations.cards import CardBook

if __name__ == "__main__":
    with mock.patch.object(serve, "CardBook", partial(CardBook, push_notifications=True)):
        main()
