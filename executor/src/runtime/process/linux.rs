//! Linux: descendants found through `/proc`, with our process as the subreaper that orphans come back to.
//!
//! An orphan (its parent ended, so it is our child now) is told apart by four signs, any of which is enough: it was
//! seen in the tree before; it is in the child's group; it still holds one of the child's standard streams; or it has
//! left our session and no other server that lives could have started it, being younger. An orphan with none of these
//! lives until another server ends or [`sweep`] takes everything.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::prctl;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid};

use super::{Pipes, Step};

/// Leaders that live, with their start times: who may own an orphan.
static LEADERS: Mutex<BTreeMap<i32, u64>> = Mutex::new(BTreeMap::new());

fn locked<T>(mutex: &'static Mutex<T>) -> std::sync::MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A line of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pid: i32,
    state: char,
    parent: i32,
    group: i32,
    session: i32,
    /// Clock ticks after boot: with the pid, a name that isn't used twice.
    started: u64,
}

impl Process {
    fn parse(stat: &str) -> Option<Self> {
        // The name in parentheses may hold anything, parentheses too.
        let (pid, rest) = (stat.split(' ').next()?, &stat[stat.rfind(')')? + 1..]);
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        Some(Self {
            pid: pid.parse().ok()?,
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    fn read(pid: i32) -> Option<Self> {
        Self::parse(&String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/stat")).ok()?))
    }

    fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    fn holds(&self, pipes: &BTreeSet<String>) -> bool {
        let Ok(files) = std::fs::read_dir(format!("/proc/{}/fd", self.pid)) else { return false };
        files
            .filter_map(|file| std::fs::read_link(file.ok()?.path()).ok())
            .any(|target| target.to_str().is_some_and(|target| pipes.contains(target)))
    }
}

/// The children of a process, by what the kernel keeps of each of its threads; `None` where it keeps nothing.
fn children(pid: i32) -> Option<Vec<i32>> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut all = Vec::new();
    for thread in threads.flatten() {
        match std::fs::read_to_string(thread.path().join("children")) {
            Ok(list) => all.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && thread.path().exists() => return None,
            // The thread has ended meanwhile.
            Err(_) => {}
        }
    }
    Some(all)
}

/// Every process that can be seen.
fn all() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter_map(Process::read).collect()
}

/// `roots` and whatever descends from them.
fn descendants(processes: &[Process], roots: BTreeSet<i32>) -> BTreeSet<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for process in processes {
        children.entry(process.parent).or_default().push(process.pid);
    }
    let (mut found, mut open) = (roots.clone(), roots.into_iter().collect::<Vec<_>>());
    while let Some(pid) = open.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            if found.insert(*child) {
                open.push(*child);
            }
        }
    }
    found
}

/// A child and the processes that belong to it.
#[derive(Debug)]
pub(super) struct Family {
    leader: i32,
    started: u64,
    pipes: BTreeSet<String>,
    known: BTreeMap<i32, u64>,
}

/// Puts the child into a group of its own.
pub(super) fn isolate(builder: &mut tokio::process::Command) {
    builder.process_group(0);
}

/// Kills a whole group whose leader hasn't been waited for yet.
pub fn kill_group(leader: u32) {
    if let Ok(leader) = i32::try_from(leader) {
        let _gone = killpg(Pid::from_raw(leader), Signal::SIGKILL);
    }
}

/// The words for a process that a signal ended.
pub(super) fn signal_name(signal: i32) -> String {
    let name = Signal::try_from(signal).map_or_else(|_| format!("signal {signal}"), |signal| signal.to_string());
    format!("killed by {name}")
}

impl Family {
    pub(super) fn of(leader: u32, pipes: &Pipes) -> Self {
        let leader = i32::try_from(leader).unwrap_or(i32::MAX);
        let started = Process::read(leader).map_or(0, |process| process.started);
        // Both ends of a pipe have one inode, so our ends tell who holds the others.
        let pipes = [pipes.stdin.as_raw_fd(), pipes.stdout.as_raw_fd(), pipes.stderr.as_raw_fd()]
            .into_iter()
            .filter_map(|fd| Some(std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?.to_str()?.to_owned()))
            .filter(|target| target.starts_with("pipe:") || target.starts_with("socket:"))
            .collect();
        locked(&LEADERS).insert(leader, started);
        Self { leader, started, pipes, known: BTreeMap::new() }
    }

    pub(super) fn leader(&self) -> u32 {
        self.leader.unsigned_abs()
    }

    /// Learns whom the leader has started by now, of whom there are few: nobody else is looked at.
    pub(super) fn learn(&mut self) {
        let mut open = vec![self.leader];
        while let Some(pid) = open.pop() {
            let Some(children) = children(pid) else {
                // Gone meanwhile, or a kernel that keeps no such list.
                if Process::read(pid).is_some() {
                    self.look();
                    return;
                }
                continue;
            };
            for process in children.into_iter().filter_map(Process::read) {
                if self.known.insert(process.pid, process.started).is_none() {
                    open.push(process.pid);
                }
            }
        }
    }

    /// Learns the tree as it is now; forgets who has ended.
    pub(super) fn look(&mut self) -> Vec<Process> {
        let _nobody_spawns = super::spawning();
        let processes = all();
        let me = getpid().as_raw();
        let session = processes.iter().find(|process| process.pid == me).map_or(0, |process| process.session);
        let leaders = locked(&LEADERS).clone();
        // Only a subreaper gets orphans; without being one, a child in another session is somebody's own.
        let adopts = prctl::get_child_subreaper().unwrap_or(false);
        let roots = processes
            .iter()
            .filter(|process| {
                let is_other_leader = process.pid != self.leader && leaders.get(&process.pid) == Some(&process.started);
                let same = |pid, started| process.pid == pid && process.started == started;
                !is_other_leader
                    && process.pid != me
                    && (same(self.leader, self.started)
                        || self.known.get(&process.pid) == Some(&process.started)
                        || process.group == self.leader
                        || (process.parent == me && adopts && self.owns_orphan(process, session, &leaders)))
            })
            .map(|process| process.pid)
            .collect();
        let found = descendants(&processes, roots);
        self.known = processes
            .iter()
            .filter(|process| found.contains(&process.pid) && process.pid != self.leader)
            .map(|process| (process.pid, process.started))
            .collect();
        processes
    }

    fn owns_orphan(&self, process: &Process, session: i32, leaders: &BTreeMap<i32, u64>) -> bool {
        // Direct children that someone else here started share our session, so these are left alone.
        let nobody_elses = process.session != session
            && leaders.iter().all(|(pid, started)| *pid == self.leader || *started > process.started);
        nobody_elses || process.holds(&self.pipes)
    }

    pub(super) fn send(&self, step: Step) {
        let signal = match step {
            Step::CloseStdin => return,
            Step::Interrupt => Signal::SIGINT,
            Step::Terminate => Signal::SIGTERM,
        };
        let _ = killpg(Pid::from_raw(self.leader), signal);
    }

    /// SIGKILL for all that belong to the family. Gives how many still lived.
    pub(super) fn kill(&mut self) -> usize {
        let processes = self.look();
        let mut alive = 0;
        for process in &processes {
            let is_leader = process.pid == self.leader && process.started == self.started;
            if !is_leader && self.known.get(&process.pid) != Some(&process.started) {
                continue;
            }
            if !process.is_dead() {
                alive += 1;
                let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
            } else if !is_leader && process.parent == getpid().as_raw() {
                // The leader is waited for by its handle; nobody else waits for an orphan.
                let _ = waitpid(Pid::from_raw(process.pid), Some(WaitPidFlag::WNOHANG));
            }
        }
        alive
    }

    /// Its leader has ended, so it leaves no more orphans to others. Of several that end at once, the one that says so last
    /// takes what nobody else can own.
    pub(super) fn resign(&mut self) {
        self.forget();
    }

    /// The family is gone: it can't own an orphan any more.
    pub(super) fn forget(&mut self) {
        let mut leaders = locked(&LEADERS);
        if leaders.get(&self.leader) == Some(&self.started) {
            leaders.remove(&self.leader);
        }
    }
}

/// Kills every descendant of this process and waits until all are gone, at most `limit`. Gives how many are left.
///
/// For the end of the executor, and for the guard after it: whoever else waits for a child loses its status.
pub fn sweep(limit: Duration) -> usize {
    let (me, until) = (getpid(), Instant::now() + limit);
    loop {
        let processes = all();
        let mut mine = descendants(&processes, BTreeSet::from([me.as_raw()]));
        mine.remove(&me.as_raw());
        let mut alive = 0;
        for process in processes.iter().filter(|process| mine.contains(&process.pid)) {
            if !process.is_dead() {
                alive += 1;
                let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
            } else if process.parent == me.as_raw() {
                let _ = waitpid(Pid::from_raw(process.pid), Some(WaitPidFlag::WNOHANG));
            }
        }
        if mine.is_empty() || (alive > 0 && Instant::now() >= until) {
            return alive;
        }
        if Instant::now() >= until {
            return 0;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// How long a zombie is left to its owner, if it has one, who may be just about to wait.
const UNCLAIMED: Duration = Duration::from_secs(10);

/// Waits for orphans that ended by themselves, so that no zombie piles up. To be asked now and then.
#[derive(Debug, Default)]
pub struct Reaper {
    /// Zombies that nobody waits for, and since when they are known.
    unclaimed: BTreeMap<(i32, u64), Instant>,
}

impl Reaper {
    /// Takes what has been a zombie for long enough, among those that `is_ours` names.
    pub fn reap(&mut self, now: Instant, is_ours: impl Fn(i32) -> bool) {
        let me = getpid().as_raw();
        let leaders = locked(&LEADERS).clone();
        let zombies = all().into_iter().filter(|process| {
            process.parent == me && process.is_dead() && !leaders.contains_key(&process.pid) && is_ours(process.pid)
        });
        let before = std::mem::take(&mut self.unclaimed);
        for zombie in zombies {
            let name = (zombie.pid, zombie.started);
            let since = before.get(&name).copied().unwrap_or(now);
            if now.saturating_duration_since(since) >= UNCLAIMED {
                let _ = waitpid(Pid::from_raw(zombie.pid), Some(WaitPidFlag::WNOHANG));
            } else {
                self.unclaimed.insert(name, since);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_is_read() {
        let stat = "42 (a) b (c)) S 7 42 40 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 123456 2 3";
        assert_eq!(
            Process::parse(stat),
            Some(Process { pid: 42, state: 'S', parent: 7, group: 42, session: 40, started: 123_456 })
        );
        assert_eq!(Process::parse("42 (sh"), None);
        assert_eq!(Process::parse(""), None);
    }

    #[test]
    fn children_are_found_without_looking_at_everyone() {
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let me = getpid().as_raw();
        // Without such a list there is nothing to be found by it, and everyone is looked at.
        assert!(children(me).is_none_or(|children| children.contains(&pid)));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(children(me).is_none_or(|children| !children.contains(&pid)));
        assert_eq!(children(i32::MAX), None);
    }

    #[test]
    fn we_see_ourselves() {
        let me = getpid().as_raw();
        assert!(all().iter().any(|process| process.pid == me && !process.is_dead()));
    }
}
