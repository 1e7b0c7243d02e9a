//! Gives memory back that is needed no longer.
//!
//! Reading and compiling a config runs through most of this program, and each page of code that was touched brings its
//! neighbours along: what is resident then is some 17 MB of code, of which serving needs three. The system takes such
//! pages back by itself when it needs them, but until then they count as ours, in every figure that people look at.

/// Lets go of this process's code. What is run next is read again, from the page cache.
pub(super) fn give_back() {
    #[cfg(target_os = "linux")]
    linux::give_back();
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::c_void;
    use std::ptr::NonNull;

    use nix::sys::mman::{MmapAdvise, madvise};

    pub(super) fn give_back() {
        let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
        for (start, length) in maps.lines().filter_map(code) {
            let Some(start) = NonNull::new(start as *mut c_void) else { continue };
            // SAFETY: `code` gives mappings of files that can be read and run and not written to, so that no page of
            // them differs from its file; the kernel reads a page that it has dropped from there again.
            #[allow(unsafe_code)]
            let given = unsafe { madvise(start, length, MmapAdvise::MADV_DONTNEED) };
            // Pages that are locked in memory stay, as whoever locked them wants.
            let _locked = given;
        }
    }

    /// Where the mapping of this line of `/proc/self/maps` begins and how many bytes it has, if it is code of a file.
    fn code(line: &str) -> Option<(usize, usize)> {
        let mut fields = line.split_ascii_whitespace();
        let (range, rights, _, _, inode) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let (start, end) = range.split_once('-')?;
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        (rights == "r-xp" && inode != "0").then_some((start, end.checked_sub(start)?))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn only_code_of_files_is_let_go() {
            let code_of = |line| code(line);
            let text = "55d2e0a00000-55d2e1e00000 r-xp 00666000 08:01 262413                     /usr/bin/mcplan";
            assert_eq!(code_of(text), Some((0x55d2_e0a0_0000, 0x0140_0000)));
            for other in [
                "55d2e0a00000-55d2e1e00000 r--p 00666000 08:01 262413                     /usr/bin/mcplan",
                "55d2e0a00000-55d2e1e00000 rwxp 00666000 08:01 262413                     /usr/bin/mcplan",
                "7ffd1e5f6000-7ffd1e5f8000 r-xp 00000000 00:00 0                          [vdso]",
                "7f1000000000-7f1000021000 rw-p 00000000 00:00 0",
                "",
            ] {
                assert_eq!(code_of(other), None, "{other}");
            }
        }

        #[test]
        fn less_is_resident_and_everything_still_runs() {
            let resident = || {
                let status = std::fs::read_to_string("/proc/self/status").unwrap();
                let line = status.lines().find_map(|line| line.strip_prefix("RssFile:")).unwrap().trim();
                line.trim_end_matches(" kB").parse::<u64>().unwrap()
            };
            let before = resident();
            give_back();
            let after = resident();
            assert!(after < before, "{before} kB, then {after} kB");
        }
    }
}
