//! What a run tells of its lock as a whole, by stable words, as rules tell what changed in it.

/// Something about a lock that no change of a server is about. The word is part of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The config is another one than was locked.
    Stale,
    /// The file is gone.
    Gone,
    /// A server is in the plan and not in the catalog.
    NotLocked,
}

impl Notice {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Stale, Self::Gone, Self::NotLocked];

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stale => "lock-stale",
            Self::Gone => "lock-gone",
            Self::NotLocked => "not-locked",
        }
    }

    /// One line about it.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Stale => "The config compiles to something else than what is locked.",
            Self::Gone => "The lock is no longer there, and the executor that was started with it goes on.",
            Self::NotLocked => "The lock knows nothing of a server that is to run.",
        }
    }

    /// What follows from it, and what to do.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Stale => {
                "Drift is acted on only for servers that are started as they were locked; what is shown or tested is what \
                 is locked. `mcplan lock --check` tells every difference, `mcplan lock` locks the config as it is now."
            }
            Self::Gone => {
                "Nothing that servers say counts as drift any more. Put the file back, or write it anew with `mcplan lock`."
            }
            Self::NotLocked => {
                "Nothing that it says counts as drift, and under `--locked` or `--frozen` none of its tools is served. \
                 `mcplan lock --server NAME` asks it and locks what it says."
            }
        }
    }
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
