//! What the demo server remembers: the issues and notes of the Harbour Bakery's web shop, in memory only.
//!
//! Every process starts with the same content; nothing is written anywhere and nothing depends on a clock.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::date::Date;

/// Everything that tools work on.
pub(super) struct Store {
    pub(super) issues: BTreeMap<i64, Issue>,
    next_number: i64,
    pub(super) notes: BTreeMap<String, String>,
    /// What clients should be told, in order; taken after each call.
    pub(super) changes: Vec<Change>,
}

/// Something that happened and that a client may want to hear of.
#[derive(Debug, PartialEq)]
pub(super) enum Change {
    /// A resource came or went.
    ResourceList,
    /// The resource of this URI reads differently now.
    Resource(String),
    /// A line for the log.
    Log(String),
}

/// One issue.
#[derive(Clone, Debug)]
pub(super) struct Issue {
    pub(super) number: i64,
    pub(super) title: String,
    pub(super) body: String,
    pub(super) open: bool,
    /// Why it was closed.
    pub(super) reason: Option<String>,
    pub(super) labels: Vec<String>,
    pub(super) assignee: Option<String>,
    pub(super) due: Option<Date>,
    /// Author and text.
    pub(super) comments: Vec<(String, String)>,
}

/// Someone who can be assigned: name for typing, full name, what they do.
pub(super) struct Person {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    pub(super) role: &'static str,
}

pub(super) const PEOPLE: &[Person] = &[
    Person { id: "jonas", name: "Jonas Weber", role: "back end: orders, payment, stock" },
    Person { id: "maya", name: "Maya Okafor", role: "owner of the bakery, decides what comes first" },
    Person { id: "priya", name: "Priya Nair", role: "front end: pages, search, accessibility" },
    Person { id: "tomas", name: "Tomás Silva", role: "customer service, knows what people complain about" },
];

pub(super) const LABELS: &[&str] = &["bug", "customer", "docs", "feature", "payment", "question", "stock"];

impl Issue {
    pub(super) fn state(&self) -> &'static str {
        if self.open { "open" } else { "closed" }
    }

    /// All of it, as data.
    pub(super) fn json(&self) -> Value {
        let comments: Vec<_> =
            self.comments.iter().map(|(author, body)| json!({ "author": author, "body": body })).collect();
        let mut value = self.summary();
        value["body"] = json!(self.body);
        value["comments"] = json!(comments);
        value
    }

    /// One line's worth, as data.
    pub(super) fn summary(&self) -> Value {
        let mut value = json!({
            "number": self.number, "title": self.title, "state": self.state(), "labels": self.labels,
        });
        for (key, text) in [
            ("assignee", self.assignee.clone()),
            ("due", self.due.map(|due| due.to_string())),
            ("reason", self.reason.clone()),
        ] {
            if let Some(text) = text {
                value[key] = json!(text);
            }
        }
        value
    }

    /// All of it, for reading.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!("# {} {}\n\nState: {}", self.number, self.title, self.state());
        if let Some(reason) = &self.reason {
            text += &format!(" ({reason})");
        }
        text += &format!("\nAssignee: {}", self.assignee.as_deref().unwrap_or("nobody"));
        if !self.labels.is_empty() {
            text += &format!("\nLabels: {}", self.labels.join(", "));
        }
        if let Some(due) = self.due {
            text += &format!("\nDue: {due}");
        }
        text += &format!("\n\n{}\n", self.body);
        for (author, body) in &self.comments {
            text += &format!("\n> {author}: {body}\n");
        }
        text
    }
}

impl Store {
    /// The content that every process starts with.
    pub(super) fn seeded() -> Self {
        let mut store = Self { issues: BTreeMap::new(), next_number: 1, notes: BTreeMap::new(), changes: Vec::new() };
        for seed in SEED_ISSUES {
            let number = store.add_issue(seed.title, seed.body);
            if let Some(issue) = store.issues.get_mut(&number) {
                issue.labels = seed.labels.iter().map(|label| (*label).to_owned()).collect();
                issue.assignee = seed.assignee.map(str::to_owned);
                issue.due = seed.due.and_then(|due| due.parse().ok());
                issue.open = seed.closed.is_none();
                issue.reason = seed.closed.map(str::to_owned);
                issue.comments = seed.comments.iter().map(|(who, what)| ((*who).into(), (*what).into())).collect();
            }
        }
        store.notes = SEED_NOTES.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        store
    }

    /// Adds an open issue and returns its number. Numbers are never used again.
    pub(super) fn add_issue(&mut self, title: &str, body: &str) -> i64 {
        let number = self.next_number;
        self.next_number += 1;
        let (title, body) = (title.to_owned(), body.to_owned());
        let issue = Issue {
            number,
            title,
            body,
            open: true,
            reason: None,
            labels: Vec::new(),
            assignee: None,
            due: None,
            comments: Vec::new(),
        };
        self.issues.insert(number, issue);
        number
    }

    /// # Errors
    /// When there is no such issue; says which there are.
    pub(super) fn issue(&self, number: i64) -> Result<&Issue, String> {
        self.issues.get(&number).ok_or_else(|| self.no_issue(number))
    }

    /// The issue, to be changed; the change is noted for subscribers and the log.
    ///
    /// # Errors
    /// When there is no such issue.
    pub(super) fn change_issue(&mut self, number: i64, what: &str) -> Result<&mut Issue, String> {
        let missing = self.no_issue(number);
        let issue = self.issues.get_mut(&number).ok_or(missing)?;
        self.changes.push(Change::Log(format!("issue {number} {what}")));
        self.changes.push(Change::Resource(format!("issue://{number}")));
        Ok(issue)
    }

    fn no_issue(&self, number: i64) -> String {
        let known: Vec<_> = self.issues.keys().map(i64::to_string).collect();
        format!("there is no issue {number}; there are {}", known.join(", "))
    }

    /// # Errors
    /// When there is no such note; says which there are.
    pub(super) fn note(&self, name: &str) -> Result<&str, String> {
        self.notes.get(name).map(String::as_str).ok_or_else(|| {
            let known: Vec<_> = self.notes.keys().map(String::as_str).collect();
            format!("there is no note {name:?}; there are {}", known.join(", "))
        })
    }

    /// Writes a note, new or not.
    pub(super) fn put_note(&mut self, name: &str, text: String) {
        self.changes.push(Change::Log(format!("note {name} written")));
        if self.notes.insert(name.to_owned(), text).is_none() {
            self.changes.push(Change::ResourceList);
        }
        self.changes.push(Change::Resource(format!("note://{name}")));
    }

    /// Takes a note away and returns its text.
    ///
    /// # Errors
    /// When there is no such note.
    pub(super) fn take_note(&mut self, name: &str) -> Result<String, String> {
        let text = self.note(name)?.to_owned();
        self.notes.remove(name);
        self.changes.extend([Change::Log(format!("note {name} removed")), Change::ResourceList]);
        Ok(text)
    }
}

/// # Errors
/// When nobody has this id; says who there is.
pub(super) fn person(id: &str) -> Result<&'static Person, String> {
    PEOPLE.iter().find(|person| person.id == id).ok_or_else(|| {
        let known: Vec<_> = PEOPLE.iter().map(|person| person.id).collect();
        format!("there is nobody called {id:?}; there are {}", known.join(", "))
    })
}

struct SeedIssue {
    title: &'static str,
    body: &'static str,
    labels: &'static [&'static str],
    assignee: Option<&'static str>,
    due: Option<&'static str>,
    closed: Option<&'static str>,
    comments: &'static [(&'static str, &'static str)],
}

const SEED_ISSUES: &[SeedIssue] = &[
    SeedIssue {
        title: "Order confirmation arrives twice",
        body: "Since the last release customers get two e-mails for one order. The second one comes about a minute \
               later and has the same order number.",
        labels: &["bug", "customer"],
        assignee: Some("jonas"),
        due: Some("2026-03-06"),
        closed: None,
        comments: &[("tomas", "Nine people wrote to us about it this week.")],
    },
    SeedIssue {
        title: "Opening hours are wrong on public holidays",
        body: "The page says that we open at 7 on Easter Monday. We are closed.",
        labels: &["bug"],
        assignee: Some("priya"),
        due: Some("2026-03-27"),
        closed: None,
        comments: &[],
    },
    SeedIssue {
        title: "Rye bread shows as sold out after midnight",
        body: "Stock is counted per day, and the new day starts with zero until the oven list is entered at 5.",
        labels: &["bug", "stock"],
        assignee: Some("jonas"),
        due: None,
        closed: None,
        comments: &[("jonas", "The count should carry over until the list is in."), ("maya", "Yes, please.")],
    },
    SeedIssue {
        title: "Filter for gluten-free products",
        body: "A tick box above the product list. The data already says which products are gluten-free.",
        labels: &["feature"],
        assignee: Some("priya"),
        due: Some("2026-04-17"),
        closed: None,
        comments: &[],
    },
    SeedIssue {
        title: "Card payment fails with a foreign postal code",
        body: "The form only takes five digits. Two customers from Canada could not pay.",
        labels: &["bug", "payment", "customer"],
        assignee: None,
        due: None,
        closed: None,
        comments: &[("tomas", "One of them called and was not amused.")],
    },
    SeedIssue {
        title: "Explain how to pause a weekly order",
        body: "People find the button only after we tell them. A paragraph on the help page would do.",
        labels: &["docs"],
        assignee: Some("tomas"),
        due: None,
        closed: None,
        comments: &[],
    },
    SeedIssue {
        title: "Checkout is slow on Saturday mornings",
        body: "Between 8 and 10 the last step takes more than six seconds.",
        labels: &["bug", "payment"],
        assignee: Some("jonas"),
        due: Some("2026-02-20"),
        closed: Some("done"),
        comments: &[("jonas", "An index was missing. It takes 200 ms now.")],
    },
    SeedIssue {
        title: "Sell cakes by the metre",
        body: "A customer asked for a cake of three metres.",
        labels: &["question"],
        assignee: Some("maya"),
        due: None,
        closed: Some("not planned"),
        comments: &[("maya", "The oven is 1.20 m wide.")],
    },
];

const SEED_NOTES: &[(&str, &str)] = &[
    (
        "opening-hours",
        "# Opening hours\n\nTuesday to Friday 7:00-18:00\nSaturday 7:00-14:00\nSunday and Monday closed\n\nOn public \
         holidays we are closed, whatever the day.\n",
    ),
    (
        "release-checklist",
        "# Before a release\n\n- [ ] order something and cancel it\n- [ ] pay with the test card\n- [ ] look at the shop \
         on a phone\n- [ ] tell Tomás what changed\n\nNever release on a Friday.\n",
    ),
    (
        "style-guide",
        "# How we write\n\nShort sentences. No exclamation marks. A price is written 4.20 €.\nWe say \"sorry\" once and \
         then what we do about it.\n",
    ),
    (
        "suppliers",
        "# Suppliers\n\nFlour: Mill at the Weir, order by Wednesday noon\nButter: Hillside Dairy, delivers Tuesday and \
         Friday\nBoxes: Carton & Sons, two weeks ahead\n",
    ),
];
