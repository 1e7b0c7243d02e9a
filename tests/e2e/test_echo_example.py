"""The server of examples/echo, as the official client sees it."""

import sys

import pytest
from mcp.shared.exceptions import MCPError

from client import connect, text_of
from programs import HERE

pytestmark = pytest.mark.anyio

SERVER = HERE.parent.parent / "examples/echo/echo_server.py"


async def test_it_echoes_and_refuses_what_it_should() -> None:
    async with connect(sys.executable, [str(SERVER)]) as client:
        assert list(await client.tools()) == ["echo"]
        assert await client.text("echo", text="grüß dich\n") == "grüß dich\n"
        wrong = await client.call("echo")
        assert wrong.is_error and "`text` must be a string" in text_of(wrong)
        with pytest.raises(MCPError, match="Unknown tool: shout"):
            await client.call("shout")
