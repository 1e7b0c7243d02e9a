//! What a connected server announces of its lists, and reading them again.

use std::collections::BTreeSet;

use futures::future::{BoxFuture, FutureExt as _};
use mcplan_compiler::observed::Observed;
use tokio::time::Instant;

use super::at;
use crate::core::coalesce::Coalesce;
use crate::runtime::connection::{Connection, Kind};

/// What is to be done about the lists.
pub(super) enum Due {
    /// They are to be read.
    Reading,
    /// They were read, or why not; with the kinds that were announced to be others.
    Read(BTreeSet<Kind>, Box<Result<Observed, String>>),
    /// It is time to see whether the server has become calm.
    Calm,
}

type Reading = BoxFuture<'static, Result<Observed, String>>;

/// The lists of one connection.
pub(super) struct Lists {
    born: Instant,
    announced: Coalesce,
    /// The kinds that were announced since they were read last.
    kinds: BTreeSet<Kind>,
    reading: Option<(BTreeSet<Kind>, Reading)>,
}

impl Default for Lists {
    fn default() -> Self {
        Self { born: Instant::now(), announced: Coalesce::default(), kinds: BTreeSet::new(), reading: None }
    }
}

impl Lists {
    /// A change was announced; whether the server turns unstable by it, or stable again.
    pub(super) fn announced(&mut self, kind: Kind) -> bool {
        self.kinds.insert(kind);
        self.announced.notice(self.born.elapsed())
    }

    /// Waits until something is to be done.
    pub(super) async fn due(&mut self) -> Due {
        let [due, calm] = [self.announced.due(), self.announced.calm_at()].map(|at| Some(self.born + at?));
        let read = async {
            match &mut self.reading {
                Some((kinds, reading)) => {
                    let result = reading.await;
                    (std::mem::take(kinds), result)
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            (kinds, result) = read => Due::Read(kinds, Box::new(result)),
            () = at(due) => Due::Reading,
            () = at(calm) => Due::Calm,
        }
    }

    /// Begins to read them. What is announced from here on isn't in what is read.
    pub(super) fn read(&mut self, connection: Option<Connection>) {
        if !self.announced.take(self.born.elapsed()) {
            return;
        }
        let Some(connection) = connection else { return self.were_read(false) };
        let reading = async move {
            let observed = connection.observe().await.map_err(|error| error.to_string())?;
            observed.tools_unknown.clone().map_or(Ok(observed), Err)
        };
        self.reading = Some((std::mem::take(&mut self.kinds), reading.boxed()));
    }

    /// They were read, and had something new or not.
    pub(super) fn were_read(&mut self, changed: bool) {
        self.reading = None;
        self.announced.read(self.born.elapsed(), changed);
    }

    /// Lets time pass; whether the server counts as stable again.
    pub(super) fn pass(&mut self) -> bool {
        self.announced.pass(self.born.elapsed())
    }

    /// Whether changes are announced too often to follow each.
    pub(super) fn are_unstable(&self) -> bool {
        self.announced.is_unstable()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn notices_become_a_reading_and_too_many_make_a_server_unstable() {
        let mut lists = Lists::default();
        assert!(lists.due().now_or_never().is_none());
        assert!(!lists.announced(Kind::Tools) && !lists.announced(Kind::Prompts));
        let began = Instant::now();
        assert!(matches!(lists.due().await, Due::Reading));
        assert!(began.elapsed() < Duration::from_millis(20), "{:?}", began.elapsed());
        // There is no connection to read them from, so nothing is begun, and nothing is due.
        lists.read(None);
        assert!(lists.due().now_or_never().is_none());
        let mut turned = 0;
        for _ in 0..31 * 20 {
            turned += usize::from(lists.announced(Kind::Tools));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(turned == 1 && lists.are_unstable());
        assert!(matches!(lists.due().await, Due::Reading), "slowly, but read they are");
        lists.read(None);
        while !matches!(lists.due().await, Due::Calm) || !lists.pass() {}
        assert!(!lists.are_unstable() && began.elapsed() < Duration::from_secs(65), "{:?}", began.elapsed());
    }
}
