"""The demo server, alone, as the official client sees it."""

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from client import Client, connect, text_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def demo(mcplan: str):
    return lambda *arguments: connect(mcplan, ["demo-server", *arguments])


async def test_it_initialises_and_lists_everything_that_it_announces(demo) -> None:
    async with demo() as client:
        assert client.initialized.server_info.name == "mcplan-demo"
        assert len(await client.tools()) > 36
        assert len((await client.session.list_prompts()).prompts) == 3
        assert len((await client.session.list_resources()).resources) == 5
        assert len((await client.session.list_resource_templates()).resource_templates) == 2
        completion = await client.session.complete(
            types.PromptReference(type="ref/prompt", name="plan_week"), {"name": "person", "value": "m"}
        )
        assert completion.completion.values == ["maya"]


async def test_structured_answers_fit_their_output_schemas(demo) -> None:
    # The client itself checks each answer against the schema of the list.
    calls = {
        "list_issues": {},
        "search_issues": {"query": "payment"},
        "get_issue": {"number": 1},
        "create_issue": {"title": "A bell at the door", "due": "2026-06-01"},
        "update_issue": {"number": 9, "body": "It rings."},
        "issue_statistics": {"on": "2026-06-02"},
        "list_notes": {},
        "describe_date": {"date": "2026-03-14"},
        "count_words": {"text": "one two"},
        "describe_numbers": {"numbers": [1, 2.5]},
    }
    async with demo() as client:
        tools = await client.tools()
        assert calls.keys() == {name for name, tool in tools.items() if tool.output_schema}
        for name, arguments in calls.items():
            result = await client.call(name, **arguments)
            assert not result.is_error and result.structured_content, f"{name}: {text_of(result)}"


async def test_a_wrong_argument_is_for_the_model_and_an_unknown_tool_for_the_client(demo) -> None:
    async with demo() as client:
        result = await client.call("create_issue", titel="x")
        assert result.is_error
        assert "`title` is missing" in text_of(result)
        with pytest.raises(MCPError) as error:
            await client.call("no_such_tool")
        assert error.value.code == types.INVALID_PARAMS


async def test_a_slow_call_reports_progress_and_others_go_on(demo) -> None:
    seen: list[float] = []
    first = anyio.Event()

    async def progress(value: float, total: float | None, message: str | None) -> None:
        seen.append(value)
        first.set()

    async with demo() as client, anyio.create_task_group() as tasks:
        await check_slow_call(client, tasks, progress, first)
    assert seen == sorted(seen)


async def check_slow_call(client: Client, tasks, progress, first: anyio.Event) -> None:
    finished = anyio.Event()

    async def count() -> None:
        await client.session.call_tool("count_to", {"n": 1000, "delay_ms": 20}, progress_callback=progress)
        finished.set()

    tasks.start_soon(count)
    with anyio.fail_after(60):
        await first.wait()
    assert await client.text("echo", text="meanwhile") == "meanwhile"
    assert not finished.is_set()
    # Leaving the call makes the client send notifications/cancelled.
    tasks.cancel_scope.cancel()


async def test_a_tool_that_appears_is_announced(demo) -> None:
    async with demo("--hide", "calculate") as client:
        assert "calculate" not in await client.tools()
        since = client.mark()
        await client.text("set_tool_visible", name="calculate", visible=True)
        await client.notification(types.ToolListChangedNotification, since)
        assert await client.text("calculate", expression="6 * 7") == "42"
