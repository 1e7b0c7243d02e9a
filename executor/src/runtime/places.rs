//! Paths of one machine in what servers say: replaced before anything is locked, and on comparison with a lock.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use mcplan_compiler::observed::Observed;

/// The home directory and the config's directory, and what stands for each.
#[derive(Clone, Debug, Default)]
pub struct Places(Vec<(String, &'static str)>);

impl Places {
    /// Of the machine that we are on. `directory` is the config's.
    pub fn of_machine(directory: &Path) -> Self {
        Self::of(directory, std::env::home_dir().as_deref())
    }

    fn of(directory: &Path, home: Option<&Path>) -> Self {
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        let mut places: Vec<(String, &'static str)> = Vec::new();
        for (path, stand_in) in [(Some(directory), "."), (home, "~")] {
            // A server may say the path as it is written or as it is when links are followed.
            let both = path.map(|path| [std::path::absolute(path).ok(), path.canonicalize().ok()]);
            for path in both.into_iter().flatten().flatten().filter(|path| path.parent().is_some()) {
                let path = path.components().collect::<PathBuf>().display().to_string();
                if !places.iter().any(|(known, _)| *known == path) {
                    places.push((path, stand_in));
                }
            }
        }
        // Where one lies in the other, the longer one is meant.
        places.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Self(places)
    }

    /// `said` with each path replaced where it stands as a whole, not as the beginning of another name.
    pub fn replace<'a>(&self, said: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(said);
        for (path, stand_in) in &self.0 {
            if text.contains(path.as_str()) {
                text = Cow::Owned(replace_whole(&text, path, stand_in));
            }
        }
        text
    }

    /// Replaces them in everything a server reported; names what changed.
    pub fn replace_in(&self, observed: &mut Observed) -> Vec<String> {
        observed.map_strings(&|said| Cow::Owned(self.replace(said).into_owned()))
    }
}

fn replace_whole(text: &str, path: &str, stand_in: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(path) {
        let (before, after) = (&rest[..at], &rest[at + path.len()..]);
        let part_of_name = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'));
        let continues = part_of_name(after.chars().next()) && !after.starts_with(". ") && after != ".";
        let begun = before.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '.');
        out.push_str(before);
        out.push_str(if continues || begun { path } else { stand_in });
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_linked_home_is_replaced_as_written_and_as_it_is() {
        let base = std::env::temp_dir().join(format!("mcplan-places-{}", std::process::id()));
        let (real, link) = (base.join("real"), base.join("link"));
        std::fs::create_dir_all(real.join("project")).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let places = Places::of(&link.join("project"), Some(&link.join("")));
        let real = real.canonicalize().unwrap();
        for home in [&link, &real] {
            assert_eq!(places.replace(&format!("{}/x", home.display())), "~/x");
            assert_eq!(places.replace(&format!("in {}/project/x", home.display())), "in ./x");
        }
        std::fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn paths_are_replaced_as_wholes() {
        let places = Places(vec![("/home/me/project".into(), "."), ("/home/me".into(), "~")]);
        for (said, expected) in [
            ("files in /home/me/project", "files in ."),
            ("/home/me/project/src and /home/me/x", "./src and ~/x"),
            ("/home/me/project.", ".."),
            ("/home/me/projects", "~/projects"),
            ("/home/melanie", "/home/melanie"),
            ("/mnt/home/me", "/mnt/home/me"),
            ("file:///home/me/x", "file://~/x"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(places.replace(said), expected, "{said}");
        }
    }
}
