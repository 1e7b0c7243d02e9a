use super::*;
use std::collections::BTreeMap;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::ChildStdout;

/// A shell script as a child; its stdout by lines.
fn shell(script: &str) -> (Child, Lines<BufReader<ChildStdout>>, ChildStdin) {
    let path = std::env::var("PATH").unwrap();
    let command = Command {
        program: resolve("sh", Some(&path), Path::new("/")).unwrap(),
        args: vec!["-c".to_owned(), script.to_owned()],
        environment: BTreeMap::from([("PATH".to_owned(), path)]),
        directory: PathBuf::from("/"),
    };
    let (child, pipes) = spawn_and_wait(&command).unwrap();
    (child, BufReader::new(pipes.stdout).lines(), pipes.stdin)
}

async fn pid(lines: &mut Lines<BufReader<ChildStdout>>) -> i32 {
    lines.next_line().await.unwrap().unwrap().trim().parse().unwrap()
}

fn is_alive(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat[stat.rfind(')').unwrap()..].starts_with(") Z"))
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

#[tokio::test]
async fn a_server_that_ends_with_its_stdin_needs_no_signal() {
    let (mut child, _lines, stdin) = shell("cat >/dev/null; exit 3");
    drop(stdin);
    assert_eq!(child.shutdown(soon()).await, Exit { code: Some(3), signal: None });
}

#[tokio::test]
async fn an_interrupt_comes_before_a_termination() {
    let (mut child, mut lines, stdin) = shell("trap 'exit 7' INT; echo $$; while :; do sleep 0.02; done");
    pid(&mut lines).await;
    drop(stdin);
    assert_eq!(child.shutdown(soon()).await.code, Some(7));
}

/// What takes its time to save something has it: nobody is killed who would have left by himself.
#[tokio::test]
async fn a_termination_comes_before_the_kill_and_each_has_its_time() {
    // Nobody reads its stderr, where it would tell of the signal.
    let (mut child, mut lines, stdin) = shell(
        "exec 2>/dev/null; trap 'echo INT' INT; trap 'echo TERM; exit 8' TERM; echo $$; while :; do sleep 0.02; done",
    );
    pid(&mut lines).await;
    drop(stdin);
    let began = Instant::now();
    assert_eq!(child.shutdown(soon()).await.code, Some(8));
    assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
    for signal in ["INT", "TERM"] {
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some(signal));
    }
    let (mut child, mut lines, stdin) = shell("trap '' INT TERM; echo $$; while :; do sleep 1; done");
    pid(&mut lines).await;
    drop(stdin);
    let began = Instant::now();
    assert_eq!(child.shutdown(soon()).await.signal, Some(9));
    assert!(began.elapsed() >= Duration::from_millis(800), "{:?}", began.elapsed());
}

#[tokio::test]
async fn what_ignores_everything_is_killed_with_its_children() {
    let (mut child, mut lines, stdin) =
        shell("trap '' INT TERM; (trap '' INT TERM; while :; do sleep 1; done) & echo $!; while :; do sleep 1; done");
    let grandchild = pid(&mut lines).await;
    drop(stdin);
    let exit = child.shutdown(soon()).await;
    assert_eq!(exit.signal, Some(9), "{exit}");
    assert_eq!(exit.to_string(), "killed by SIGKILL");
    assert!(!is_alive(grandchild));
}

#[tokio::test]
async fn a_deadline_that_has_passed_still_kills() {
    let (mut child, mut lines, stdin) = shell("trap '' INT TERM; echo $$; while :; do sleep 1; done");
    let leader = pid(&mut lines).await;
    drop(stdin);
    child.shutdown(Instant::now()).await;
    assert!(!is_alive(leader));
}

#[tokio::test]
async fn a_leader_that_went_early_takes_its_group_along() {
    let (mut child, mut lines, _stdin) = shell("sleep 1000 & echo $!; exit 0");
    let grandchild = pid(&mut lines).await;
    assert_eq!(child.wait().await.code, Some(0));
    assert!(is_alive(grandchild), "the test shows nothing otherwise");
    child.shutdown(soon()).await;
    assert!(!is_alive(grandchild));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn one_that_left_the_group_is_found_in_the_tree_and_by_its_pipes() {
    nix::sys::prctl::set_child_subreaper(true).unwrap();
    // The first is a child of the shell in a session of its own. The second has lost its parent as well and is known
    // by nothing but the stdout that it still holds.
    let (mut child, mut lines, stdin) = shell(
        "setsid sh -c 'trap \"\" INT TERM; echo $$; exec sleep 1000' & \
         (setsid sh -c 'trap \"\" INT TERM; echo $$; sleep 1000' &) & wait",
    );
    let (first, second) = (pid(&mut lines).await, pid(&mut lines).await);
    let (mut other, mut other_lines, other_stdin) = shell("echo $$; cat >/dev/null");
    let bystander = pid(&mut other_lines).await;
    drop(stdin);
    child.shutdown(soon()).await;
    assert!(!is_alive(first) && !is_alive(second));
    assert!(is_alive(bystander), "another server's process is none of our business");
    drop(other_stdin);
    other.shutdown(soon()).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_orphan_that_ended_by_itself_leaves_no_zombie() {
    nix::sys::prctl::set_child_subreaper(true).unwrap();
    let (mut child, mut lines, stdin) = shell("(sh -c 'echo $$; read -r line' &); read -r line");
    let orphan = pid(&mut lines).await;
    drop(stdin);
    child.wait().await;
    while is_alive(orphan) {
        tokio::task::yield_now().await;
    }
    let is_there = || Path::new(&format!("/proc/{orphan}")).exists();
    assert!(is_there(), "a zombie that nobody waits for");
    let (mut reaper, now) = (Reaper::default(), std::time::Instant::now());
    for seconds in [0, 9] {
        reaper.reap(now + Duration::from_secs(seconds), |pid| pid == orphan);
        assert!(is_there(), "its owner may be about to wait");
    }
    reaper.reap(now + Duration::from_secs(10), |pid| pid == orphan);
    assert!(!is_there());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn dropping_kills_at_once() {
    let (child, mut lines, _stdin) = shell("trap '' INT TERM; sleep 1000 & echo $!; while :; do sleep 1; done");
    let grandchild = pid(&mut lines).await;
    drop(child);
    // The kill has been sent; the kernel delivers it in its own time.
    while is_alive(grandchild) {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_missing_program_is_named_with_the_path_that_was_searched() {
    let error = resolve("no-such-program", Some("/nowhere:/none"), Path::new("/")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the command `no-such-program` was not found on the server's PATH (/nowhere:/none); install it, or give its full path"
    );
    let error = resolve("./none", Some("/bin"), Path::new("/")).unwrap_err();
    assert_eq!(error.to_string(), "the command `./none` is not there, or is not executable");
    let error = resolve("sh", None, Path::new("/")).unwrap_err();
    assert!(error.to_string().contains("has no PATH"), "{error}");
}

#[test]
fn a_relative_program_is_found_from_the_given_directory() {
    assert_eq!(resolve("bin/sh", Some(""), Path::new("/")).unwrap(), Path::new("/bin/sh"));
}
