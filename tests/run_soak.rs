//! Faults in a random order, with many calls in flight over every transport, servers that are connected anew and files
//! that are rewritten: every call gets exactly one answer, and when all is quiet nothing of it is left.
//!
//! The order comes from a seed that a failure prints: `MCPLAN_SOAK_SEED` repeats it. `MCPLAN_SOAK_SECONDS` makes it last.

#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stderr, reason = "an integration test")]

mod support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::stage::{self, Stage, WAYS};

#[test]
#[ignore = "the server of the other tests"]
fn script_server() {
    support::server::main();
}

/// Calls in flight at the most.
const FLIGHT: usize = 24;
/// Those over which a call has an HTTP connection of its own, from a pool.
const POOLED: [&str; 3] = ["http", "stateless", "sse"];
/// Steps of an ordinary run.
const STEPS: usize = 400;

/// Xorshift: the same seed, the same order.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.roll(all.len())]
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What of a server's faults hits no more than its own call, or its own connection.
fn faults() -> Vec<Value> {
    let mut faults: Vec<_> = [
        "exit",
        "exit_after",
        "cut",
        "cut_stream",
        "silent",
        "twice",
        "no_utf8",
        "wrong_id",
        "banner",
        "restart",
        "hang",
        "close_in",
        "close_out",
        "grandchild",
    ]
    .map(Value::from)
    .into();
    faults.extend([
        json!({ "late": 100 }),
        json!({ "text": "oops" }),
        json!({ "result": 5 }),
        json!({ "error": "a text" }),
        json!({ "long": 1_000_000 }),
        json!({ "flood": ["notifications/tools/list_changed", 100] }),
        json!({ "flood": ["notifications/progress", 100] }),
        json!({ "progress": [20, 10] }),
        json!({ "progress_then_nothing": [20, 10] }),
        json!({ "ask": ["elicitation/create", { "message": "who?", "requestedSchema": { "type": "object" } }] }),
        json!({ "ask": ["no/such", {}] }),
    ]);
    faults.extend([400, 401, 404, 500, 503].map(|status| json!({ "status": [status, "told so"] })));
    faults
}

/// What may not grow.
#[derive(Clone, Debug)]
struct Figures {
    handles: BTreeMap<String, usize>,
    threads: usize,
    tasks: usize,
    descendants: usize,
    /// Those that the fault `grandchild` has started.
    orphans: usize,
    /// In KiB.
    memory: u64,
}

impl Figures {
    fn of(stage: &Stage) -> Self {
        let status = stage::status(&stage.project);
        let process = &status["process"];
        let pid = i32::try_from(process["pid"].as_i64().unwrap()).unwrap();
        let lines = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let field = |name: &str| {
            let line = lines.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_ascii_whitespace().next().unwrap().parse::<u64>().unwrap()
        };
        let all = stage::descendants(stage.client.pid());
        let is_orphan =
            |pid: &&i32| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|of| of == b"sleep\x001000\0");
        let orphans = all.iter().filter(is_orphan).count();
        Self {
            handles: stage::handles(pid, &stage.remotes),
            threads: usize::try_from(field("Threads:")).unwrap(),
            tasks: usize::try_from(process["tasks"].as_u64().unwrap()).unwrap(),
            descendants: all.len() - orphans,
            orphans,
            memory: field("VmRSS:"),
        }
    }

    /// Every handle, and every task, is one that was there before. A handle more for an HTTP connection that waits to be
    /// used again is a task more too, and as many as there were calls at once may wait until their server's connection
    /// ends. One that a server left behind at its own end, out of its group and without its pipes, may be another server's
    /// as far as can be seen; it lives until that one ends too.
    fn is_as(&self, before: &Self) -> bool {
        let of = |figures: &Self| {
            let mut others = figures.handles.clone();
            let http: Vec<_> = POOLED.iter().filter_map(|way| others.remove(&format!("connection to {way}"))).collect();
            let tasks = figures.tasks - http.iter().sum::<usize>();
            (http.iter().all(|some| *some <= 1 + FLIGHT), others, tasks, figures.descendants)
        };
        of(self) == of(before) && self.is_no_larger(before)
    }

    /// Threads that only wait for work come and go, and so does memory; a leak of each step's would be many times that.
    fn is_no_larger(&self, before: &Self) -> bool {
        self.threads <= before.threads + 8 && self.memory <= before.memory + 64 * 1024
    }

    /// The very same.
    fn is_exactly(&self, before: &Self) -> bool {
        let of = |figures: &Self| (figures.handles.clone(), figures.tasks, figures.descendants, figures.orphans);
        of(self) == of(before) && self.is_no_larger(before)
    }

    /// What there is once nothing comes or goes any more: right after the start, the connection by which somebody asked
    /// whether it is up may still be there.
    fn at_rest(stage: &Stage) -> Self {
        let mut before = Self::of(stage);
        Self::becomes(stage, |now| {
            let is_same = now.is_exactly(&before);
            before = now.clone();
            is_same
        })
        .expect("it comes to rest")
    }

    /// Waits for what has ended to be gone.
    fn becomes(stage: &Stage, mut is_well: impl FnMut(&Self) -> bool) -> Result<Self, Self> {
        let until = Instant::now() + support::DEADLINE;
        loop {
            let now = Self::of(stage);
            if is_well(&now) {
                return Ok(now);
            }
            if Instant::now() > until {
                return Err(now);
            }
        }
    }
}

struct Soak {
    stage: Stage,
    dice: Dice,
    faults: Vec<Value>,
    /// Calls in flight: id, server, and what a right answer holds.
    flight: Vec<(u64, String, Option<String>)>,
    calls: u64,
    outcomes: BTreeMap<&'static str, u64>,
}

impl Soak {
    fn count(&mut self, what: &'static str) {
        *self.outcomes.entry(what).or_default() += 1;
    }

    fn step(&mut self, number: usize) {
        match self.dice.roll(40) {
            0 => {
                let way = *self.dice.one_of(&WAYS);
                // It may be connected anew by the fault that comes next.
                self.stage.project.run(&["reconnect", way]);
                self.count("reconnects");
            }
            1 => {
                let more = json!({ "prompt": { "budget": { "chars": 1000 + number } } });
                let changed = [Some(*self.dice.one_of(&WAYS)), None][self.dice.roll(2)];
                self.stage.rewrite(&more, changed, number);
                self.count("rewrites");
            }
            2 => {
                // Some servers are sick for a while, at any message.
                let (way, methods) = (*self.dice.one_of(&WAYS), ["initialize", "tools/list", "ping"]);
                let at = json!({ *self.dice.one_of(&methods): self.dice.one_of(&self.faults) });
                match self.stage.remotes.iter().find(|(of, _)| *of == way) {
                    Some((_, remote)) => remote.set(at),
                    None => {
                        let id = self.stage.send(way, "set", json!({ "at": at }));
                        self.flight.push((id, way.to_owned(), None));
                    }
                }
                self.count("sick servers");
            }
            3 => {
                self.stage.remotes.iter().for_each(|(_, remote)| remote.set(json!({})));
                self.count("healings");
            }
            _ => self.call(),
        }
        while self.flight.len() >= FLIGHT {
            let at = self.dice.roll(self.flight.len());
            self.land(at);
        }
    }

    fn call(&mut self) {
        self.calls += 1;
        let nonce = format!("nonce-{}", self.calls);
        let (server, tool, arguments, right) = match self.dice.roll(3) {
            0 => ("good", "echo", json!({ "nonce": nonce }), Some(nonce)),
            1 => (*self.dice.one_of(&WAYS), "echo", json!({ "nonce": nonce }), None),
            _ => {
                let fault = self.dice.one_of(&self.faults).clone();
                (*self.dice.one_of(&WAYS), "fault", json!({ "do": fault, "nonce": nonce }), None)
            }
        };
        let id = self.stage.send(server, tool, arguments);
        self.flight.push((id, server.to_owned(), right));
    }

    /// Waits for the answer to one of the calls in flight.
    fn land(&mut self, at: usize) {
        let (id, server, right) = self.flight.swap_remove(at);
        let (told, failed) = self.stage.told(id);
        match right {
            Some(right) => {
                assert!(!failed && told.contains(&right), "{right} at {server}: {told:.300}");
                self.count("of the healthy server");
            }
            None if failed => {
                assert!(told.contains(&server) || told.contains("\"error\""), "{server} isn't named: {told:.300}");
                self.count("failed");
            }
            None => self.count("answered"),
        }
    }

    /// All is healthy and connected again, and no call in flight.
    fn rest(&mut self) {
        while !self.flight.is_empty() {
            self.land(0);
        }
        self.stage.remotes.iter().for_each(|(_, remote)| remote.set(json!({})));
        for way in WAYS {
            self.stage.reconnect(way);
            let id = self.stage.send(way, "echo", json!({ "rested": way }));
            let (told, _) = self.stage.told(id);
            assert!(told.contains("rested"), "{way}: {told:.300}");
        }
    }
}

#[test]
fn nothing_is_left_of_any_number_of_faults() {
    let seed = number("MCPLAN_SOAK_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        now.as_nanos() as u64 | 1
    });
    eprintln!("MCPLAN_SOAK_SEED={seed}");
    let lasts = number("MCPLAN_SOAK_SECONDS").map(Duration::from_secs);
    let more = json!({ "call_timeout_seconds": 1, "timeout_seconds": 4, "request_timeout_seconds": 1 });
    let stage = Stage::bare(&WAYS, &json!({}), &more);
    let bare = Figures::at_rest(&stage);
    stage.fill();
    let (dice, faults) = (Dice(seed), faults());
    let mut soak = Soak { stage, dice, faults, flight: Vec::new(), calls: 0, outcomes: BTreeMap::new() };
    // What is made once is there from now on.
    (0..STEPS / 4).for_each(|number| soak.step(number));
    soak.rest();
    let before = Figures::of(&soak.stage);
    let began = Instant::now();
    let mut number = STEPS;
    while lasts.map_or(number < 2 * STEPS, |lasts| began.elapsed() < lasts) {
        soak.step(number);
        number += 1;
    }
    soak.rest();
    let after = Figures::becomes(&soak.stage, |now| now.is_as(&before));
    eprintln!(
        "{number} steps, {} calls in {:?}: {:?}\n{before:?}\n{after:?}",
        soak.calls,
        began.elapsed(),
        soak.outcomes
    );
    assert!(after.is_ok(), "seed {seed}: {before:?} became {after:?}");
    soak.stage.clear();
    let left = Figures::becomes(&soak.stage, |now| now.is_exactly(&bare));
    assert!(left.is_ok(), "seed {seed}: {bare:?} became {left:?}");
    soak.stage.client.request("ping", json!({}));
    assert!(!soak.stage.client.has_heard("\"result\"") && !soak.stage.client.has_heard("\"error\""), "a second answer");
    let log = soak.stage.end();
    assert!(!log.contains("panicked"), "{log}");
}

/// Servers over every transport, with a connection that stays and with one for each call: after they are taken out of the
/// config, all is as it was before they were in it.
#[test]
fn nothing_is_left_of_servers_that_are_gone() {
    for keeps in [true, false] {
        let mut stage = Stage::bare(&WAYS, &json!({}), &json!({ "persistent_sessions": keeps }));
        let bare = Figures::at_rest(&stage);
        stage.fill();
        let calls: Vec<_> =
            [&WAYS[..], &WAYS, &["good"]].concat().iter().map(|way| stage.send(way, "echo", json!({}))).collect();
        calls.into_iter().for_each(|id| assert_eq!(stage.told(id), ("{}".to_owned(), false)));
        assert!(Figures::of(&stage).tasks > bare.tasks);
        stage.clear();
        let left = Figures::becomes(&stage, |now| now.is_exactly(&bare));
        assert!(left.is_ok(), "{bare:?} became {left:?}");
        stage.end();
    }
}

/// The same of servers that never were connected, because they don't answer what they are asked first.
#[test]
fn nothing_is_left_of_servers_that_never_came_up() {
    for method in ["server/discover", "initialize", "notifications/initialized", "tools/list"] {
        for fault in [json!("hang"), json!({ "progress_then_nothing": [1, 1] })] {
            let short = json!({ "timeout_seconds": 1, "request_timeout_seconds": 1 });
            let stage = Stage::bare(&WAYS, &json!({ method: fault }), &short);
            let bare = Figures::at_rest(&stage);
            stage.fill();
            stage.clear();
            let left = Figures::becomes(&stage, |now| now.is_exactly(&bare));
            assert!(left.is_ok(), "{method} {fault}: {bare:?} became {left:?}");
            stage.end();
        }
    }
}
