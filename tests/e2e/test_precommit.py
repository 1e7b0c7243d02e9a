"""The hooks of .pre-commit-hooks.yaml, run by pre-commit itself in a repository of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import programs

ROOT = programs.HERE.parent.parent
GOOD = "mcp_servers: [{ name: echo, command: mcplan, args: [demo-server] }]\n"
BAD = "mcp_servers: [{ name: echo, comand: mcplan, args: [demo-server] }]\n"


def run(*command: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, away from the user's own git and pre-commit settings."""
    apart = {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_{what}": f"{who.lower()}@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    # Under a hook or in a worktree git names its own repository to children.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PRE_COMMIT"))}
    return subprocess.run(
        command, cwd=cwd, env={**inherited, **apart, **env}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=3600, check=False,
    )


class Repository:
    """A git repository that uses hooks of ours."""

    def __init__(self, directory: Path, hooks: Path, **env: str) -> None:
        self.directory, self.hooks = directory, hooks
        self.env = {"PRE_COMMIT_HOME": str(directory.parent / "pre-commit"), **env}
        directory.mkdir()
        self.git("init", "--quiet")

    def git(self, *arguments: str) -> str:
        done = run("git", *arguments, cwd=self.directory)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def use(self, hook: str, more: str = "") -> None:
        head = run("git", "rev-parse", "HEAD", cwd=self.hooks).stdout.strip()
        self.write(
            ".pre-commit-config.yaml",
            f"repos:\n- repo: {self.hooks}\n  rev: {head}\n  hooks:\n  - id: {hook}\n{more}",
        )

    def write(self, path: str, text: str) -> None:
        file = self.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.git("add", path)

    def check(self) -> subprocess.CompletedProcess[str]:
        """`pre-commit run` on what is staged."""
        return run(sys.executable, "-m", "pre_commit", "run", "--verbose", cwd=self.directory, **self.env)


def commit(directory: Path) -> Path:
    """Makes `directory` a repository with everything in it committed."""
    for arguments in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "hooks"]):
        done = run("git", *arguments, cwd=directory)
        assert done.returncode == 0, done.stderr
    return directory


@pytest.fixture
def repository(mcplan: str, tmp_path: Path) -> Repository:
    """Hooks as they stand in this tree; mcplan on PATH is the one under test."""
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", hooks)
    return Repository(tmp_path / "work", commit(hooks), PATH=f"{Path(mcplan).parent}{os.pathsep}{os.environ['PATH']}")


def test_a_bad_config_fails_with_its_report_and_a_good_one_passes(repository: Repository) -> None:
    repository.use("mcplan-validate-system", "    args: [agents/config.yml, mcplan.yaml]\n")
    repository.write("agents/config.yml", BAD)
    repository.write("mcplan.yaml", GOOD)
    refused = repository.check()
    assert refused.returncode == 1, refused.stdout + refused.stderr
    assert "error[unknown-key]: unknown key `comand`" in refused.stdout
    assert "--> agents/config.yml:1:29" in refused.stdout
    assert "mcplan.yaml: ok, 1 server" in refused.stdout
    repository.write("agents/config.yml", GOOD)
    passed = repository.check()
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert "agents/config.yml: ok, 1 server" in passed.stdout


@pytest.mark.parametrize(
    "path, good, bad",
    [
        ("config.prod.yml", "mcp: { timeout_seconds: 60 }\n", "mcp: { timeout_seconds: soon }\n"),
        ("teams/search.yaml", "mcp_servers: [{ name: search, command: ./s }]\n", "mcp_servers: [{ name: echo, comand: ./s }]\n"),
        ("prompts/block.j2", "{{ total }} tools\n", "{{ totla }} tools\n"),
        ("config.lock.json", None, None),
    ],
)
def test_whatever_a_config_is_made_of_is_looked_at(repository: Repository, path: str, good: str | None, bad: str | None) -> None:
    repository.use("mcplan-validate-system", "    args: [config.yml, config.prod.yml]\n")
    repository.write("config.yml", "fragments: [teams/*.yaml]\nprompt: { template: prompts/block.j2 }\n" + GOOD)
    repository.write("config.prod.yml", "mcp: { timeout_seconds: 5 }\n")
    repository.write("prompts/block.j2", "{{ total }}\n")
    repository.git("commit", "--quiet", "--message", "all that is not looked at now")
    repository.write(path, good or "{}\n")
    passed = repository.check()
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert "config.yml with profile prod: ok" in passed.stdout, passed.stdout
    if bad is not None:
        repository.write(path, bad)
        refused = repository.check()
        assert refused.returncode == 1 and f"--> {path}:1:" in refused.stdout, refused.stdout + refused.stderr


def test_configs_of_other_programs_are_left_alone(repository: Repository) -> None:
    repository.use("mcplan-validate-system")
    repository.write("mcplan.yml", GOOD)
    for path in (".circleci/config.yml", "docs/_config.yml", "app/.hidden/mcplan.yml", "values.yaml"):
        repository.write(path, "not: ours\n")
    passed = repository.check()
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert "mcplan.yml: ok, 1 server\n" in passed.stdout, passed.stdout
    repository.git("commit", "--quiet", "--message", "configs")
    repository.write("notes.md", "no YAML\n")
    skipped = repository.check()
    assert skipped.returncode == 0 and "no files to check" in skipped.stdout, skipped.stdout + skipped.stderr


def test_a_stale_lock_and_another_block_are_found(repository: Repository) -> None:
    repository.use("mcplan-lock-check", "    language: system\n  - id: mcplan-prompt-snapshot\n    language: system\n")
    repository.write("config.yml", GOOD)
    mcplan = shutil.which("mcplan", path=repository.env["PATH"])
    assert run(mcplan, "lock", cwd=repository.directory).returncode == 0
    block = run(mcplan, "render", cwd=repository.directory)
    repository.write("prompt.txt", block.stdout)
    repository.git("add", "--all")
    passed = repository.check()
    assert passed.returncode == 0, passed.stdout + passed.stderr
    # Neither change touches the file that tells: a hook that only got the changed files would miss it.
    repository.write("prompt.txt", block.stdout.replace("echo", "ohce", 1))
    refused = repository.check()
    assert refused.returncode == 1 and "+++" in refused.stdout, refused.stdout
    repository.write("prompt.txt", block.stdout)
    repository.write("config.yml", GOOD.replace("demo-server", "demo-server, --hide, echo"))
    refused = repository.check()
    assert refused.returncode == 1, refused.stdout + refused.stderr
    assert "mcplan lock --check" in refused.stdout and "Failed" in refused.stdout


TESTS = "tests: [{ call: mcp__echo__echo, expect: allowed }]\n"
HIDDEN = "mcp: { denylist: [mcp__echo__echo] }\n"


def lock(repository: Repository, *more: str) -> None:
    """Locks and stages what that writes."""
    mcplan = shutil.which("mcplan", path=repository.env["PATH"])
    done = run(mcplan, "lock", *more, cwd=repository.directory)
    assert done.returncode == 0, done.stderr
    repository.git("add", "--all")


def test_a_test_that_does_not_hold_is_found(repository: Repository) -> None:
    repository.use("mcplan-test", "    language: system\n")
    repository.write("config.yml", "fragments: [teams/*.yml]\n" + GOOD)
    # Tests in a fragment count, and a change of a fragment alone starts the hook.
    repository.write("teams/echo.yml", TESTS)
    lock(repository)
    repository.git("commit", "--quiet", "--message", "all")
    repository.write("teams/echo.yml", TESTS.replace("allowed", "denied"))
    refused = repository.check()
    assert refused.returncode == 1, refused.stdout + refused.stderr
    assert "FAILED  teams/echo.yml:1  call mcp__echo__echo is denied" in refused.stdout
    repository.write("teams/echo.yml", "# One test.\n" + TESTS)
    passed = repository.check()
    assert passed.returncode == 0 and "1 test: 1 passed, 0 failed" in passed.stdout, passed.stdout + passed.stderr
    # The config moved on, the lock didn't: what it still proves is no proof.
    repository.write("teams/echo.yml", TESTS + HIDDEN)
    refused = repository.check()
    assert refused.returncode == 1 and "lock-stale" in refused.stdout, refused.stdout + refused.stderr
    lock(repository, "--offline")
    refused = repository.check()
    assert refused.returncode == 1 and "`mcp.denylist` drops it" in refused.stdout, refused.stdout + refused.stderr


def test_hooks_of_one_config_take_it_as_an_argument(repository: Repository) -> None:
    more = "    language: system\n    args: [-c, agents/config.yml]\n"
    hooks = ["mcplan-lock-check", "mcplan-prompt-snapshot", "mcplan-test"]
    repository.use(hooks[0], more + "".join(f"  - id: {hook}\n{more}" for hook in hooks[1:]))
    repository.write("agents/config.yml", GOOD + TESTS)
    lock(repository, "-c", "agents/config.yml")
    mcplan = shutil.which("mcplan", path=repository.env["PATH"])
    block = run(mcplan, "render", "-c", "agents/config.yml", cwd=repository.directory)
    repository.write("agents/prompt.txt", block.stdout)
    passed = repository.check()
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert "agents/config.lock.json fits agents/config.yml" in passed.stdout
    assert "agents/prompt.txt is what the agent sees" in passed.stdout
    assert "1 test: 1 passed, 0 failed" in passed.stdout
    repository.write("agents/config.yml", GOOD + TESTS + HIDDEN)
    lock(repository, "--offline", "-c", "agents/config.yml")
    refused = repository.check()
    assert refused.returncode == 1, refused.stdout + refused.stderr
    results = {hook: f"- hook id: {hook}\n- duration:" in refused.stdout for hook in hooks}
    assert all(results.values()), refused.stdout
    assert "agents/config.lock.json fits agents/config.yml" in refused.stdout
    assert "the block is not what agents/prompt.txt says" in refused.stdout
    assert "1 test: 0 passed, 1 failed" in refused.stdout


@pytest.mark.skipif("MCPLAN_TEST_WHEEL" not in os.environ, reason="builds mcplan anew; MCPLAN_TEST_WHEEL=1 asks for it")
def test_pre_commit_builds_and_installs_this_tree(tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for path in filter(None, listed.stdout.split("\0")):
        if (ROOT / path).is_file():
            (hooks / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, hooks / path)
    # The profile of checks: what is under test is that it installs, not how fast it then is.
    env = {"MATURIN_PEP517_ARGS": "--profile ci", "CARGO_TARGET_DIR": str(ROOT / "target/wheel")}
    repository = Repository(tmp_path / "work", commit(hooks), **env)
    repository.use("mcplan-validate")
    repository.write("config.yml", BAD)
    refused = repository.check()
    assert refused.returncode == 1, refused.stdout + refused.stderr
    assert "error[unknown-key]: unknown key `comand`" in refused.stdout
    repository.write("config.yml", GOOD)
    passed = repository.check()
    assert passed.returncode == 0 and "config.yml: ok, 1 server" in passed.stdout, passed.stdout + passed.stderr
