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
    let mut removed = Vec::new();
    places.flat_map(|place| left_in(&place)).for_each(|path| remove(&path, &mut removed));
    removed
}

/// Removes a group and, before it, those of the jails that were nested in it: their supervisors are gone with its own, and
/// a group with processes in it refuses all the same.
fn remove(path: &Path, removed: &mut Vec<PathBuf>) {
    for nested in ours_in(path, |_| true) {
        remove(&nested, removed);
    }
    if std::fs::remove_dir(path).is_ok() {
        removed.push(path.to_owned());
    }
}

fn left_in(place: &Path) -> Vec<PathBuf> {
    ours_in(place, is_gone)
}

/// Groups by our names whose launcher is one that is asked for.
fn ours_in(place: &Path, wanted: fn(u32) -> bool) -> Vec<PathBuf> {
    let mut ours: Vec<_> = std::fs::read_dir(place)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_str().and_then(launcher_of).is_some_and(wanted))
        .map(|entry| entry.path())
        .collect();
    ours.sort();
    ours
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
    fn nested_groups_go_before_the_one_around_them() {
        let place = tempfile::tempdir().unwrap();
        let outer = place.path().join("thirdwall-4194305-0");
        let inner = outer.join("thirdwall-4194306-0").join("thirdwall-4194307-1");
        std::fs::create_dir_all(&inner).unwrap();
        let mut removed = Vec::new();
        remove(&outer, &mut removed);
        assert_eq!(removed, [inner.as_path(), inner.parent().unwrap(), outer.as_path()]);
        assert!(!outer.exists());
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
