"""docs/settings.md says of every setting what the code says of it."""

from a2a_server.settings.sources import known
from tests.architecture.settings_page import PAGE, RENEWAL, page, unexplained


def test_the_page_of_settings_is_fresh() -> None:
    assert PAGE.read_text("utf-8") == page(), f"settings have changed; write the page anew: {RENEWAL}"


def test_it_has_every_setting_and_its_meaning() -> None:
    text = PAGE.read_text("utf-8")
    assert not [name for name in known() if f"`{name}`" not in text and f"`[[{name}]]`" not in text]
    assert unexplained() == []
