//! Real processes: servers with faults, their environments, and the guard. Has a harness of its own, because the binary
//! also runs as the servers and executors of its tests.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test and its helpers"
)]
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports))]

#[cfg(unix)]
mod fault;
#[cfg(unix)]
mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(unix)]
    return unix::main();
    #[cfg(not(unix))]
    ExitCode::SUCCESS
}

#[cfg(unix)]
mod unix {
    use std::collections::BTreeMap;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
    use std::time::Duration;

    use mcplan_compiler::compile;
    use mcplan_compiler::interpolate::Template;
    use mcplan_compiler::observed::Observed;
    use mcplan_compiler::plan::{Environment, Launch, Server};
    use mcplan_compiler::prompt_template::Template as PromptTemplate;
    use mcplan_compiler::source::MemorySources;
    use mcplan_executor::runtime::connection::{ConnectError, Connection, Context, Event, Step, Terms, connect};
    use mcplan_executor::runtime::executor::Executor;
    use mcplan_executor::runtime::places::Places;
    use mcplan_executor::runtime::program::Program;
    use nix::sys::signal::{Signal, kill};
    use nix::sys::wait::waitpid;
    use nix::unistd::Pid;
    use serde_json::json;
    use tokio::sync::mpsc;

    use super::fault::{self, faulty};

    const TESTS: &[(&str, fn())] = &[
        ("a_banner_is_noise_and_the_server_works", a_banner_is_noise_and_the_server_works),
        ("a_process_that_cannot_bear_the_probe_is_connected", a_process_that_cannot_bear_the_probe_is_connected),
        ("an_end_at_any_stage_is_told_with_status_and_words", an_end_at_any_stage_is_told_with_status_and_words),
        ("a_hang_at_any_stage_is_told_and_leaves_nothing", a_hang_at_any_stage_is_told_and_leaves_nothing),
        ("a_huge_list_and_an_endless_one_cost_a_warning", a_huge_list_and_an_endless_one_cost_a_warning),
        ("a_child_sees_the_allow_list_and_its_own", a_child_sees_the_allow_list_and_its_own),
        ("a_program_or_directory_that_is_not_there", a_program_or_directory_that_is_not_there),
        ("closing_leaves_no_hostile_grandchild", closing_leaves_no_hostile_grandchild),
        ("what_a_server_left_behind_is_buried_while_the_executor_runs", what_a_server_left_behind_is_buried),
        ("the_guard_hands_on_signals_streams_and_status", the_guard_hands_on_signals_streams_and_status),
        ("the_executor_is_killed_and_nothing_survives", the_executor_is_killed_and_nothing_survives),
        ("the_guard_is_killed_and_nothing_survives", the_guard_is_killed_and_nothing_survives),
        ("an_executor_whose_guard_is_gone_does_not_start", an_executor_whose_guard_is_gone_does_not_start),
    ];

    pub fn main() -> ExitCode {
        let args: Vec<String> = std::env::args().skip(1).collect();
        if args.first().is_some_and(|arg| arg == "fault") {
            return fault::run(&args[1..]);
        }
        let words: Vec<_> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
        let is_exact = args.iter().any(|arg| arg == "--exact");
        let is_wanted = |name: &str| {
            words.is_empty() || words.iter().any(|word| if is_exact { name == *word } else { name.contains(*word) })
        };
        // None of ours is ever `#[ignore]`d.
        let only_ignored = args.iter().any(|arg| arg == "--ignored");
        let chosen: Vec<_> = TESTS.iter().filter(|(name, _)| is_wanted(name) && !only_ignored).collect();
        if args.iter().any(|arg| arg == "--list") {
            chosen.iter().for_each(|(name, _)| println!("{name}: test"));
            return ExitCode::SUCCESS;
        }
        println!("\nrunning {} tests", chosen.len());
        let mut failed = 0;
        for (name, test) in &chosen {
            let is_ok = catch_unwind(AssertUnwindSafe(test)).is_ok();
            failed += usize::from(!is_ok);
            println!("test {name} ... {}", if is_ok { "ok" } else { "FAILED" });
        }
        println!("\ntest result: {} passed; {failed} failed", chosen.len() - failed);
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(future)
    }

    type Outcome = Result<(Connection, Observed), ConnectError>;

    async fn dial(server: &Server) -> (Outcome, mpsc::Receiver<Event>) {
        let (events, received) = mpsc::channel(256);
        (connect(server, &Context::of_process("/"), &Terms::default(), events).await, received)
    }

    async fn close(connection: &Connection) {
        connection.close(tokio::time::Instant::now() + Duration::from_secs(5)).await;
    }

    const BANNER: &str = "Welcome to FaultServer 1.0!\n  listening…\n{\"level\":\"info\"}";

    fn a_banner_is_noise_and_the_server_works() {
        block_on(async {
            let (outcome, mut events) =
                dial(&fault::scripted(&json!({ "tools": ["one"], "noise": BANNER }), json!({}))).await;
            let (connection, observed) = outcome.unwrap();
            assert_eq!(observed.tools[0].known.name, "one");
            for expected in ["Welcome to FaultServer 1.0!", "  listening…", "{\"level\":\"info\"}"] {
                assert_eq!(events.recv().await, Some(Event::Noise(expected.to_owned())));
            }
            close(&connection).await;
        });
    }

    fn a_process_that_cannot_bear_the_probe_is_connected() {
        block_on(async {
            for fault in ["exit", "silent"] {
                let at = json!({ "server/discover": fault });
                let (connection, observed) = dial(&faulty(&at, json!({"timeout_seconds": 6.0}))).await.0.unwrap();
                assert_eq!(observed.introduction.protocol_version, "2025-11-25", "{fault}");
                close(&connection).await;
            }
        });
    }

    fn an_end_at_any_stage_is_told_with_status_and_words() {
        block_on(async {
            let exit = |at: &str| json!({ "at": { at: "exit" }, "tools": ["one"] });
            let cases = [
                (
                    json!({ "stderr": "cannot find the moon", "exit": 3 }),
                    "(exit status 3) while waiting for the answer to `initialize`; its last words: cannot find the moon",
                ),
                (
                    exit("initialize"),
                    "(exit status 7) while waiting for the answer to `initialize`; its last words: gone at initialize",
                ),
                (exit("tools/list"), "(exit status 7) while listing its tools; its last words: gone at tools/list"),
            ];
            for (script, expected) in cases {
                let error = dial(&fault::scripted(&script, json!({}))).await.0.unwrap_err();
                assert_eq!(error.to_string(), format!("server `fault` ended {expected}"));
            }
            // Between two stages it may be seen in either.
            let error = dial(&faulty(&json!({ "notifications/initialized": "exit" }), json!({}))).await.0.unwrap_err();
            assert!(matches!(error, ConnectError::Exited { .. }), "{error}");
        });
        assert_no_children();
    }

    fn a_hang_at_any_stage_is_told_and_leaves_nothing() {
        block_on(async {
            let limits = || json!({"timeout_seconds": 0.5});
            for (at, expected) in
                [("server/discover", Step::Initialize), ("initialize", Step::Initialize), ("tools/list", Step::Tools)]
            {
                let error = dial(&faulty(&json!({ at: "hang" }), limits())).await.0.unwrap_err();
                assert!(matches!(&error, ConnectError::TimedOut { step, .. } if *step == expected), "{at}: {error}");
                assert!(error.to_string().contains("was not ready within 0.5 s"), "{error}");
            }
        });
        assert_no_children();
    }

    fn a_huge_list_and_an_endless_one_cost_a_warning() {
        block_on(async {
            let (outcome, mut events) = dial(&faulty(&json!({ "tools/list": { "long": 17 << 20 } }), json!({}))).await;
            let (connection, observed) = outcome.unwrap();
            assert_eq!(observed.tools.len(), 0);
            assert!(observed.warnings[0].contains("longer than 16 MiB"), "{:?}", observed.warnings);
            assert!(matches!(events.recv().await, Some(Event::Warning(text)) if text.contains("was thrown away")));
            close(&connection).await;
            let (outcome, _events) = dial(&faulty(&json!({ "tools/list": { "pages": "other" } }), json!({}))).await;
            let (connection, observed) = outcome.unwrap();
            assert_eq!(observed.tools.len(), 1_000);
            assert!(
                observed.warnings[0].contains("it has more than 1000 pages; 1000 items are kept"),
                "{:?}",
                observed.warnings
            );
            close(&connection).await;
        });
    }

    fn a_child_sees_the_allow_list_and_its_own() {
        let parent: BTreeMap<String, String> =
            [("PATH", "/bin:/usr/bin"), ("OTHER_TOKEN", "canary-secret"), ("EDITOR", "vi"), ("HOME", "/h$$x${PATH}")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();
        let seen = |environment: Environment| {
            let mut server = fault::scripted(&json!({ "tools_of_environment": true }), json!({}));
            let Launch::Stdio(stdio) = &mut server.launch else { unreachable!() };
            stdio.environment = environment;
            stdio.env.insert("MINE".to_owned(), Template::parse("x-${HOME} $5 $${NOT}").0);
            block_on(async {
                let (events, _received) = mpsc::channel(256);
                let (connection, observed) =
                    connect(&server, &Context::new(parent.clone(), "/"), &Terms::default(), events).await.unwrap();
                close(&connection).await;
                let mut seen: Vec<_> = observed.tools.iter().map(|tool| tool.known.name.clone()).collect();
                seen.sort();
                seen
            })
        };
        // A value goes on as it is, whatever it holds.
        let [home, mine] = ["HOME=/h$$x${PATH}", "MINE=x-/h$$x${PATH} $5 ${NOT}"];
        assert_eq!(seen(Environment::Minimal), [home, mine, "PATH=/bin:/usr/bin"]);
        assert_eq!(seen(Environment::Filtered), ["EDITOR=vi", home, mine, "PATH=/bin:/usr/bin"]);
        assert_eq!(seen(Environment::All).len(), 5);
    }

    fn a_program_or_directory_that_is_not_there() {
        block_on(async {
            let error = dial(&fault::server("no-such-program", &[], json!({}))).await.0.unwrap_err();
            let text = error.to_string();
            assert!(
                text.starts_with("server `fault` can't start: the command `no-such-program` was not found"),
                "{text}"
            );
            let mut server = faulty(&json!({}), json!({}));
            let Launch::Stdio(stdio) = &mut server.launch else { unreachable!() };
            stdio.cwd = Template::literal("no/where");
            let text = dial(&server).await.0.unwrap_err().to_string();
            assert_eq!(text, "server `fault` can't start: its directory `/no/where` is not there; see `cwd`");
        });
    }

    /// Our children that live, by pid.
    fn children() -> Vec<i32> {
        let me = std::process::id().to_string();
        std::fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|pid: &i32| {
                let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                let rest = stat.rsplit(')').next().unwrap_or_default().trim();
                let fields: Vec<_> = rest.split(' ').collect();
                fields.get(1) == Some(&me.as_str()) && fields[0] != "Z"
            })
            .collect()
    }

    fn assert_no_children() {
        #[cfg(target_os = "linux")]
        assert_eq!(children(), [0; 0]);
    }

    /// What loses its parent comes to this process, where it can be counted.
    fn become_subreaper() {
        #[cfg(target_os = "linux")]
        nix::sys::prctl::set_child_subreaper(true).unwrap();
    }

    fn closing_leaves_no_hostile_grandchild() {
        if !cfg!(target_os = "linux") {
            return;
        }
        become_subreaper();
        block_on(async {
            let own = std::env::current_exe().unwrap();
            let server = fault::server("sh", &["-c", fault::HOSTILE, own.to_str().unwrap()], json!({}));
            let (outcome, mut events) = dial(&server).await;
            let (connection, _) = outcome.unwrap();
            for _ in 0..4 {
                assert_eq!(events.recv().await, Some(Event::Stderr("up".to_owned())));
            }
            close(&connection).await;
        });
        assert_no_children();
    }

    /// A running plan without servers.
    fn executor() -> Executor {
        let files = MemorySources([("config.yml".to_owned(), b"mcp_servers: []".to_vec())].into());
        let plan = compile("config.yml", &files).unwrap().plan.unwrap();
        let template = PromptTemplate::parse(plan.prompt.template.content.text()).unwrap().into();
        let places = Places::of_machine(std::path::Path::new("/")).into();
        let program = Program { plan: plan.into(), baseline: None, template, places, written: Default::default() };
        Executor::start(program, Context::of_process("/")).0
    }

    fn what_a_server_left_behind_is_buried() {
        if !cfg!(target_os = "linux") {
            return;
        }
        become_subreaper();
        let left = Command::new("sh").args(["-c", "(sh -c 'echo $$' &)"]).output().unwrap();
        let pid: i32 = String::from_utf8(left.stdout).unwrap().trim().parse().unwrap();
        let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat"));
        // Its end of the pipe is closed, so it is as good as dead.
        while !stat().unwrap().contains(") Z ") {
            std::thread::yield_now();
        }
        // The clock passes at once while nothing is to be done.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let executor = executor();
            tokio::time::sleep(Duration::from_secs(61)).await;
            assert!(stat().is_err(), "a zombie that nobody waits for: {stat:?}", stat = stat());
            executor.shutdown(tokio::time::Instant::now()).await;
        });
    }

    /// A guard with an executor and four hostile grandchildren, all up.
    struct Guarded {
        guard: Child,
        executor: Pid,
        lines: std::io::Lines<BufReader<ChildStdout>>,
    }

    impl Guarded {
        fn start() -> Self {
            become_subreaper();
            let mut guard = Command::new(std::env::current_exe().unwrap())
                .args(["fault", "guard"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(guard.stdout.take().unwrap()).lines();
            let (mut executor, mut up) = (None, 0);
            while executor.is_none() || up < 4 {
                let line = lines.next().unwrap().unwrap();
                executor = line.strip_prefix("executor ").map(|pid| Pid::from_raw(pid.parse().unwrap())).or(executor);
                up += usize::from(line == "up");
            }
            Self { guard, executor: executor.unwrap(), lines }
        }

        fn pid(&self) -> Pid {
            Pid::from_raw(i32::try_from(self.guard.id()).unwrap())
        }
    }

    fn the_guard_hands_on_signals_streams_and_status() {
        if !cfg!(target_os = "linux") {
            return;
        }
        for (signal, status) in [(Signal::SIGTERM, 42), (Signal::SIGINT, 43), (Signal::SIGHUP, 44)] {
            let mut guarded = Guarded::start();
            let mut stdin = guarded.guard.stdin.take().unwrap();
            stdin.write_all(b"hello\n").unwrap();
            assert_eq!(guarded.lines.next().unwrap().unwrap(), "heard hello");
            kill(guarded.pid(), signal).unwrap();
            assert_eq!(guarded.guard.wait().unwrap().code(), Some(status), "{signal}");
            assert_no_children();
        }
    }

    fn the_executor_is_killed_and_nothing_survives() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let mut guarded = Guarded::start();
        kill(guarded.executor, Signal::SIGKILL).unwrap();
        assert_eq!(guarded.guard.wait().unwrap().code(), Some(128 + 9));
        assert_no_children();
    }

    fn the_guard_is_killed_and_nothing_survives() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let mut guarded = Guarded::start();
        kill(guarded.pid(), Signal::SIGKILL).unwrap();
        guarded.guard.wait().unwrap();
        // The executor's parent is gone, so it is ours to wait for.
        let status = waitpid(guarded.executor, None).unwrap();
        assert_eq!(status, nix::sys::wait::WaitStatus::Exited(guarded.executor, 42), "it was told by SIGTERM");
        assert_no_children();
    }

    fn an_executor_whose_guard_is_gone_does_not_start() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let mut executor = Command::new(std::env::current_exe().unwrap());
        let status = executor.args(["fault", "executor"]).env("MCPLAN_GUARD", "1").status().unwrap();
        assert_eq!(status.code(), Some(99));
    }
}
