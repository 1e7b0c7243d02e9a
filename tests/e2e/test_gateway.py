"""`mcplan run --stdio` in front of real servers, as an agent's client sees it."""

import os
import signal
from pathlib import Path

import anyio
import git
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

import programs
from client import DEADLINE, Client, Watched, connect, descendants, text_of

pytestmark = pytest.mark.anyio

OURS = {"search_mcp_tools", "call_mcp_tool"}
RESOURCE_TOOLS = {"mcp_resources_list", "mcp_resources_read"}


async def refused(client: Client, tool: str, **arguments) -> str:
    """The message of a call that the protocol refuses as one of an unknown tool."""
    with pytest.raises(MCPError) as error:
        await client.call(tool, **arguments)
    assert error.value.code == types.INVALID_PARAMS
    return error.value.message


def comparable(model) -> dict:
    """What goes over the wire for a value of the protocol."""
    return model.model_dump(by_alias=True, exclude_none=True, mode="json")


async def test_a_client_sees_the_always_loaded_tools_and_finds_the_rest(installation, config) -> None:
    installation.write(config({"everything": programs.everything() | {"defer": True, "tools": {"always": ["echo"]}}}))
    async with installation.run() as client:
        listed = set(await client.tools())
        assert listed - RESOURCE_TOOLS == OURS | {"mcp__everything__echo"}
        assert await client.text("mcp__everything__echo", message="hello") == "Echo: hello"

        since = client.mark()
        found = await client.call("search_mcp_tools", query="the sum of two numbers", limit=3)
        assert "mcp__everything__get-sum" in found.model_dump_json()
        await client.notification(types.ToolListChangedNotification, since)
        assert "mcp__everything__get-sum" in await client.tools()
        assert "is 5" in await client.text("mcp__everything__get-sum", a=2, b=3)


async def test_a_deferred_tool_can_be_called_directly_and_through_ours(installation, config) -> None:
    installation.write(config({"everything": programs.everything()}, defer=True))
    async with installation.run() as client:
        assert "mcp__everything__get-sum" not in await client.tools()
        through = await client.text("call_mcp_tool", name="mcp__everything__get-sum", arguments={"a": 2, "b": 3})
        assert "is 5" in through
        since = client.mark()
        assert "is 9" in await client.text("mcp__everything__get-sum", a=4, b=5)
        await client.tools_when(lambda tools: "mcp__everything__get-sum" in tools, since)


async def test_a_denied_tool_does_not_exist_on_any_route(installation, config) -> None:
    deny = ["mcp__everything__get-env"]
    installation.write(config({"everything": programs.everything()}, defer=True, denylist=deny))
    async with installation.run() as client:
        denied = await refused(client, "mcp__everything__get-env")
        unknown = await refused(client, "mcp__everything__get-nothing")
        assert denied.replace("get-env", "get-nothing") == unknown, "the error doesn't tell that the tool exists"
        await refused(client, "call_mcp_tool", name="mcp__everything__get-env", arguments={})
        found = await client.call("search_mcp_tools", query="get-env environment variables", limit=50)
        assert "mcp__everything__get-env" not in found.model_dump_json()
        assert "mcp__everything__get-env" not in await client.tools()


async def test_only_included_tools_of_a_file_server_remain(installation, config, tmp_path: Path) -> None:
    (tmp_path / "hello.txt").write_text("good morning\n")
    server = programs.filesystem(tmp_path) | {
        "defer": False,
        "tools": {"include": ["read_*", "list_directory"], "exclude": ["read_media_file"]},
    }
    installation.write(config({"files": server}))
    async with installation.run() as client:
        names = {name for name in await client.tools() if name.startswith("mcp__files__")}
        assert "mcp__files__read_text_file" in names
        assert "mcp__files__list_directory" in names
        assert "mcp__files__read_media_file" not in names
        assert all(name.startswith(("mcp__files__read_", "mcp__files__list_directory")) for name in names)
        assert "good morning" in await client.text("mcp__files__read_text_file", path=str(tmp_path / "hello.txt"))
        await refused(client, "mcp__files__write_file", path=str(tmp_path / "new.txt"), content="x")
        assert not (tmp_path / "new.txt").exists()


async def test_tools_and_results_arrive_unchanged(installation, config) -> None:
    calls = {
        "echo": {"message": "ünï ✓"},
        "get-tiny-image": {},
        "get-structured-content": {"location": "Chicago"},
        "get-annotated-message": {"messageType": "error", "includeImage": True},
        "get-resource-links": {"count": 3},
        "get-sum": {"a": "not a number"},
    }
    everything = programs.everything()
    async with connect(everything["command"], everything["args"]) as direct:
        tools = {name: comparable(tool) for name, tool in (await direct.tools()).items()}
        results = {name: comparable(await direct.call(name, **arguments)) for name, arguments in calls.items()}
    assert results["get-sum"]["isError"]

    installation.write(config({"everything": everything | {"defer": False}}))
    async with installation.run() as client:
        listed = await client.tools()
        for name, arguments in calls.items():
            exposed = f"mcp__everything__{name}"
            assert comparable(listed[exposed]) == tools[name] | {"name": exposed}
            assert comparable(await client.call(exposed, **arguments)) == results[name], name


async def test_prompts_and_resources_arrive_unchanged(installation, config) -> None:
    arguments = {"args-prompt": {"city": "Graz"}, "simple-prompt": {}}
    everything = programs.everything()
    async with connect(everything["command"], everything["args"]) as direct:
        prompts = {prompt.name: comparable(prompt) for prompt in (await direct.session.list_prompts()).prompts}
        resources = [comparable(resource) for resource in (await direct.session.list_resources()).resources]
        templates = comparable(await direct.session.list_resource_templates())
        got = {name: comparable(await direct.session.get_prompt(name, given)) for name, given in arguments.items()}
        uris = [resources[0]["uri"], "demo://resource/dynamic/text/7"]
        read = [comparable(await direct.session.read_resource(uri)) for uri in uris]

    # The bakery's server is first, and has resources and prompts of its own.
    installation.write(config({"bakery": programs.demo(), "everything": everything}))
    async with installation.run() as client:
        listed = {prompt.name: comparable(prompt) for prompt in (await client.session.list_prompts()).prompts}
        assert set(prompts) == {name.removeprefix("mcp__everything__") for name in listed if "everything" in name}
        for name, given in arguments.items():
            exposed = f"mcp__everything__{name}"
            assert listed[exposed] == prompts[name] | {"name": exposed}
            assert comparable(await client.session.get_prompt(exposed, given)) == got[name], name
        assert any(name.startswith("mcp__bakery__") for name in listed)
        ours = [comparable(resource) for resource in (await client.session.list_resources()).resources]
        assert [resource for resource in ours if resource in resources] == resources
        assert len(ours) > len(resources)
        ours = comparable(await client.session.list_resource_templates())["resourceTemplates"]
        assert all(template in ours for template in templates["resourceTemplates"])
        for uri, expected in zip(uris, read, strict=True):
            found = comparable(await client.session.read_resource(uri))
            # The time of reading is in some of its texts.
            assert [content["uri"] for content in found["contents"]] == [c["uri"] for c in expected["contents"]]
        with pytest.raises(MCPError) as error:
            await client.session.get_prompt("mcp__everything__nothing", {})
        assert error.value.code == types.INVALID_PARAMS


async def test_servers_of_several_makers_stand_side_by_side(installation, config, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository")
    memory = programs.memory() | {"env": {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}}
    servers = {"git": programs.git(repository), "memory": memory, "bakery": programs.demo("--group", "issues,server")}
    installation.write(config(servers, defer=False))
    async with installation.run() as client:
        assert "the first commit" in await client.text("mcp__git__git_log", repo_path=str(repository))
        entity = {"name": "rye", "entityType": "bread", "observations": ["sold out"]}
        await client.text("mcp__memory__create_entities", entities=[entity])
        assert "sold out" in await client.text("mcp__memory__read_graph")
        assert "metre" in await client.text("mcp__bakery__list_issues", state="closed")


def make_repository(path: Path) -> Path:
    """A git repository with one commit."""
    repository = git.Repo.init(path)
    author = git.Actor("A", "a@example.com")
    repository.index.commit("the first commit", author=author, committer=author)
    repository.close()
    return path


async def test_one_dead_server_costs_only_itself(installation, config) -> None:
    servers = {
        "absent": {"command": str(installation.directory / "no-such-program")},
        "bakery": programs.demo("--group", "issues,server"),
        "everything": programs.everything(),
    }
    installation.write(config(servers, defer=False))
    async with installation.run() as client:
        assert await client.text("mcp__everything__echo", message="1") == "Echo: 1"
        assert await client.text("mcp__bakery__echo", text="2") == "2"

        victims = [pid for pid, line in descendants_of_run().items() if "server-everything" in line]
        assert victims, descendants_of_run()
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        await fails(client, "mcp__everything__echo", message="3")
        assert await client.text("mcp__bakery__echo", text="4") == "4"
        assert "mcp__bakery__list_issues" in await client.tools()


async def fails(client: Client, tool: str, **arguments) -> None:
    """The call fails, in whichever of the two ways, and says which server it was."""
    try:
        result = await client.call(tool, **arguments)
    except MCPError as error:
        assert "everything" in error.message
    else:
        assert result.is_error
        assert "everything" in text_of(result)


def descendants_of_run() -> dict[int, str]:
    """The processes that belong to the `mcplan run` of this test."""
    return {pid: line for pid, line in descendants(os.getpid()).items() if line}


async def test_nothing_is_left_running_after_the_client_has_gone(installation, config) -> None:
    servers = {"everything": programs.everything(), "bakery": programs.demo()}
    installation.write(config(servers, defer=False))
    async with installation.run() as client:
        assert await client.text("mcp__everything__echo", message="x") == "Echo: x"
        assert await client.text("mcp__bakery__echo", text="x") == "x"
        watched = [Watched(pid) for pid in descendants_of_run()]
        assert len(watched) >= 3
    left = [one.pid for one in watched if not one.ended(DEADLINE)]
    for one in watched:
        one.close()
    assert not left


async def test_progress_comes_through_in_order_and_a_cancelled_call_ends(installation, config) -> None:
    installation.write(config({"bakery": programs.demo()}, defer=False))
    seen: list[tuple[float, float | None]] = []
    first = anyio.Event()

    async def progress(value: float, total: float | None, message: str | None) -> None:
        seen.append((value, total))
        first.set()

    async with installation.run() as client:
        result = await client.call("mcp__bakery__count_to", n=5, delay_ms=10, progress=progress)
        assert text_of(result) == "Counted to 5."
        assert seen == [(float(number), 5.0) for number in range(1, 6)]

        first = anyio.Event()
        async with anyio.create_task_group() as tasks:

            async def forever() -> None:
                await client.call("mcp__bakery__count_to", n=1000, delay_ms=1000, progress=progress)

            tasks.start_soon(forever)
            with anyio.fail_after(DEADLINE):
                await first.wait()
            tasks.cancel_scope.cancel()
        assert await client.text("mcp__bakery__echo", text="still there") == "still there"


async def test_a_list_that_changes_upstream_changes_here(installation, config) -> None:
    installation.write(config({"bakery": programs.demo("--hide", "calculate")}, defer=False))
    async with installation.run() as client:
        assert "mcp__bakery__calculate" not in await client.tools()
        since = client.mark()
        await client.text("mcp__bakery__set_tool_visible", name="calculate", visible=True)
        await client.tools_when(lambda tools: "mcp__bakery__calculate" in tools, since)
        assert await client.text("mcp__bakery__calculate", expression="6 * 7") == "42"


async def test_an_edit_during_a_slow_call_lets_it_finish_and_serves_the_new_tools(installation, config) -> None:
    servers = {"everything": programs.everything()}
    installation.write(config(servers, defer=False))
    began = anyio.Event()
    results: list[types.CallToolResult] = []

    async def progress(value: float, total: float | None, message: str | None) -> None:
        began.set()

    async with installation.run() as client:
        await client.tools_when(lambda tools: "mcp__everything__echo" in tools)

        async def slow() -> None:
            tool = "mcp__everything__trigger-long-running-operation"
            results.append(await client.call(tool, duration=4, steps=20, progress=progress))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(slow)
            with anyio.fail_after(DEADLINE):
                await began.wait()
            assert not results
            since = client.mark()
            installation.write(config(servers | {"bakery": programs.demo()}, defer=False, denylist=["*__get-env"]))
            tools = await client.tools_when(lambda tools: "mcp__bakery__list_issues" in tools, since)
            assert "mcp__everything__get-env" not in tools
            assert await client.text("mcp__bakery__echo", text="new") == "new"
        assert not results[0].is_error
        assert "Long running operation completed" in text_of(results[0])
        await refused(client, "mcp__everything__get-env")


async def test_an_invalid_edit_changes_nothing_and_the_next_valid_one_counts(installation, config) -> None:
    installation.write(config({"bakery": programs.demo()}, defer=False))
    async with installation.run() as client:
        before = await client.tools_when(lambda tools: "mcp__bakery__echo" in tools)
        heard, logged = client.mark(), client.stderr.mark()
        installation.write("mcp_servers:\n  - name: bakery\n    comand: mcplan\n")
        await client.stderr.wait_for("plan.rejected", logged)
        assert await client.tools() == before
        assert await client.text("mcp__bakery__echo", text="as before") == "as before"
        assert client.mark() == heard, "nothing was announced"

        since = client.mark()
        installation.write(config({"bakery": programs.demo() | {"tools": {"exclude": ["delete_*"]}}}, defer=False))
        await client.tools_when(lambda tools: "mcp__bakery__delete_issue" not in tools, since)
        assert await client.text("mcp__bakery__echo", text="again") == "again"


async def test_a_lock_puts_the_deferred_tools_into_the_instructions(installation, config) -> None:
    installation.write(config({"everything": programs.everything()}, defer=True))
    locked = installation.command("lock")
    assert locked.returncode == 0, locked.stderr
    checked = installation.command("lock", "--check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    async with installation.run() as client:
        assert "<AVAILABLE_MCP_TOOLS>" in client.initialized.instructions
        assert "mcp__everything__get-sum" in client.initialized.instructions
