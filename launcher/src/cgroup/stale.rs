//! Groups that a killed launcher left: found and removed by `doctor`, never on the way to a start.

use super::{
    folder::{PREFIX, read_small},
    place::{controller_places, unified},
};
use std::path::{Path, PathBuf};

/// Removes groups whose launcher is gone; returns what was removed. A group with processes in it refuses by itself.
#[must_use]
pub fn sweep() -> Vec<PathBuf> {
    let own = read_small(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let places = controller_places(&own)
        .into_owned()
        .into_iter()
        .flatten()
        .chain(unified(&own).map(|place| place.path));
    places.flat_map(|place| left_in(&place)).filter(|path| std::fs::remove_dir(path).is_ok()).collect()
}

fn left_in(place: &Path) -> Vec<PathBuf> {
    let mut left: Vec<_> = std::fs::read_dir(place)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_str().and_then(launcher_of).is_some_and(is_gone))
        .map(|entry| entry.path())
        .collect();
    left.sort();
    left
}

fn launcher_of(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_names_have_a_launcher() {
        assert_eq!(launcher_of("thirdwall-12-3"), Some(12));
        assert_eq!(launcher_of("thirdwall-x-3"), None);
        assert_eq!(launcher_of("user.slice"), None);
    }

    #[test]
    fn a_folder_of_a_living_launcher_stays() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: String| std::fs::create_dir(place.path().join(name)).unwrap();
        make(format!("thirdwall-{}-0", std::process::id()));
        make("thirdwall-4194305-0".into());
        make("other".into());
        assert_eq!(left_in(place.path()), [place.path().join("thirdwall-4194305-0")]);
    }
}
