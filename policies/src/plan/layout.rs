//! The jail's root while it is being laid out: what stands where, and what Landlock allows there.
//!
//! Invariant: a path of the jail has one node; a tree that is visible through another one is not mounted twice.

use super::{Access, Execute, HostPath, IdMap, JailPath, LandlockRule, Mount, Node, Right};
use crate::error::Refusal;
use std::collections::{BTreeMap, BTreeSet};

/// Everything in a scratch folder but executing.
pub(super) const SCRATCH_RIGHTS: [Right; 5] =
    [Right::ReadFile, Right::ReadDir, Right::WriteFile, Right::Make, Right::MakeIpc];
/// Reading a tree.
pub(super) const READ_TREE: [Right; 2] = [Right::ReadFile, Right::ReadDir];

/// A tree or file to bind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bind {
    /// On the host, links resolved.
    pub(super) source: HostPath,
    pub(super) access: Access,
    pub(super) execute: Execute,
    pub(super) idmap: IdMap,
}

/// The root in the making.
#[derive(Debug, Default)]
pub(super) struct Layout {
    nodes: BTreeMap<String, Node>,
    rules: BTreeMap<String, BTreeSet<Right>>,
}

impl Layout {
    /// Puts a node that is no bind. What the host's own trees hold at that place stays as it is.
    pub(super) fn put(&mut self, at: &str, node: Node) {
        self.nodes.insert(at.to_owned(), node);
    }

    /// Binds a tree at its place, or at where the links that lead to that place point.
    pub(super) fn bind(&mut self, at: &str, bind: Bind) -> Result<String, Refusal> {
        if at.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(Refusal::PathRefused {
                path: at.to_owned(),
                why: "a place in the jail has no '.' or '..'",
            });
        }
        let at = self.through_links(at);
        let bind = match self.nodes.get(&at) {
            // A file of the host that is asked for by name stands before the one made for the jail.
            None | Some(Node::Text(_) | Node::Folder) => bind,
            Some(Node::Bind { source, access, execute, idmap }) if *source == bind.source => Bind {
                source: bind.source,
                access: bind.access.max(*access),
                execute: bind.execute.max(*execute),
                idmap: if bind.idmap == IdMap::AsIs { *idmap } else { bind.idmap },
            },
            Some(_) => {
                return Err(Refusal::PathRefused {
                    path: at,
                    why: "another part of the jail stands at that place",
                });
            }
        };
        let Bind { source, access, execute, idmap } = bind;
        self.nodes.insert(at.clone(), Node::Bind { source, access, execute, idmap });
        Ok(at)
    }

    /// Adds rights beneath a path.
    pub(super) fn allow(&mut self, at: &str, rights: &[Right]) {
        if !rights.is_empty() {
            self.rules.entry(at.to_owned()).or_default().extend(rights);
        }
    }

    /// Where in the jail a file of the host is seen, if it is.
    pub(super) fn seen(&self, real: &HostPath) -> Option<String> {
        self.nodes
            .iter()
            .filter_map(|(at, node)| match node {
                Node::Bind { source, .. } => {
                    beneath(&source.0, &real.0).map(|rest| (source.0.len(), format!("{at}{rest}")))
                }
                _ => None,
            })
            .max()
            .map(|(_, path)| path)
    }

    /// Lets the mount that holds a path execute files.
    pub(super) fn make_executable(&mut self, at: &str) {
        let holder = self.holder(at).map(str::to_owned);
        if let Some(Node::Bind { execute, .. } | Node::Scratch { execute, .. }) =
            holder.and_then(|holder| self.nodes.get_mut(&holder))
        {
            *execute = Execute::Allowed;
        }
    }

    /// Lets everything be executed.
    pub(super) fn execute_everything(&mut self) {
        for node in self.nodes.values_mut() {
            if let Node::Bind { execute, .. } | Node::Scratch { execute, .. } = node {
                *execute = Execute::Allowed;
            }
        }
        for (at, node) in &self.nodes {
            if matches!(node, Node::Bind { .. } | Node::Scratch { .. }) {
                self.rules.entry(at.clone()).or_default().insert(Right::Execute);
            }
        }
    }

    /// The scratch folder at or above a path.
    pub(super) fn scratch_above(&self, at: &str) -> Option<&str> {
        let is_scratch = |(above, node): &(&String, &Node)| {
            matches!(node, Node::Scratch { .. }) && beneath(above, at).is_some()
        };
        self.nodes.iter().find(is_scratch).map(|(above, _)| above.as_str())
    }

    /// The nodes so far.
    pub(super) fn nodes(&self) -> &BTreeMap<String, Node> {
        &self.nodes
    }

    /// The deepest node at or above a path that files can be in.
    pub(super) fn holder(&self, at: &str) -> Option<&str> {
        self.nodes
            .iter()
            .filter(|(_, node)| matches!(node, Node::Bind { .. } | Node::Scratch { .. }))
            .filter(|(above, _)| beneath(above, at).is_some())
            .map(|(above, _)| above.as_str())
            .max_by_key(|above| above.len())
    }

    fn through_links(&self, at: &str) -> String {
        let mut at = at.to_owned();
        // Each turn resolves one link of the root; more than a few mean a circle, which the mount will then refuse.
        for _ in 0..8 {
            let step = self.nodes.iter().find_map(|(link, node)| match node {
                Node::Link(text) => beneath(link, &at).filter(|rest| !rest.is_empty()).map(|rest| match text
                    .strip_prefix('/')
                {
                    Some(_) => format!("{text}{rest}"),
                    None => format!("{}/{text}{rest}", parent(link)),
                }),
                _ => None,
            });
            match step {
                Some(next) => at = next,
                None => break,
            }
        }
        at
    }

    /// The finished root and rules, parents first.
    pub(super) fn finish(mut self) -> Result<(Vec<Mount>, Vec<LandlockRule>), Refusal> {
        self.relocate();
        self.raise();
        self.prune()?;
        self.folders();
        let rules = self.pruned_rules();
        let root = self.nodes.into_iter().map(|(at, node)| Mount { at: JailPath(at), node }).collect();
        Ok((root, rules))
    }

    /// A granted link inside a bound tree can't be mounted upon (it leads on). What it leads to gets its own place,
    /// and the link then finds it there.
    fn relocate(&mut self) {
        let moves: Vec<(String, String)> = self
            .nodes
            .iter()
            .filter_map(|(at, node)| match node {
                Node::Bind { source, .. } if source.0 != *at && self.other_tree_above(at, source) => {
                    (!self.nodes.contains_key(&source.0)).then(|| (at.clone(), source.0.clone()))
                }
                _ => None,
            })
            .collect();
        for (from, to) in moves {
            if let Some(node) = self.nodes.remove(&from) {
                self.nodes.insert(to.clone(), node);
            }
            if let Some(rights) = self.rules.remove(&from) {
                self.rules.entry(to).or_default().extend(rights);
            }
        }
    }

    fn above(&self, at: &str) -> Option<(&String, &Node)> {
        self.nodes
            .iter()
            .filter(|(above, node)| {
                **above != at && !matches!(node, Node::Folder) && beneath(above, at).is_some()
            })
            .max_by_key(|(above, _)| above.len())
    }

    fn other_tree_above(&self, at: &str, source: &HostPath) -> bool {
        match self.above(at) {
            Some((above, Node::Bind { source: tree, .. })) => {
                beneath(above, at).is_some_and(|rest| format!("{}{rest}", tree.0) != source.0)
            }
            _ => false,
        }
    }

    /// A part of a tree that is mounted by itself loses nothing that the tree around it has: what any grant gives is given.
    fn raise(&mut self) {
        // Parents come first in the order of the paths, so what a tree was raised to reaches the parts of its parts.
        let places: Vec<String> = self.nodes.keys().cloned().collect();
        for at in places {
            let Some(Node::Bind { source, .. }) = self.nodes.get(&at) else { continue };
            if self.other_tree_above(&at, source) {
                continue;
            }
            let Some((_, Node::Bind { access: access_above, execute: execute_above, .. })) = self.above(&at)
            else {
                continue;
            };
            let (access_above, execute_above) = (*access_above, *execute_above);
            if let Some(Node::Bind { access, execute, .. }) = self.nodes.get_mut(&at) {
                *access = (*access).max(access_above);
                *execute = (*execute).max(execute_above);
            }
        }
    }

    /// Drops what is already seen with at least the same rights of the mount, and made files inside the host's trees.
    fn prune(&mut self) -> Result<(), Refusal> {
        let mut drop = Vec::new();
        for (at, node) in &self.nodes {
            let Some((_, above)) = self.above(at) else { continue };
            match (node, above) {
                (
                    Node::Bind { source, access, execute, idmap },
                    Node::Bind { access: access_above, execute: execute_above, idmap: idmap_above, .. },
                ) => {
                    if self.other_tree_above(at, source) {
                        return Err(Refusal::PathRefused {
                            path: at.clone(),
                            why: "another part of the jail stands at that place",
                        });
                    }
                    let ids_fit = *idmap == IdMap::AsIs || idmap == idmap_above;
                    if access <= access_above && execute <= execute_above && ids_fit {
                        drop.push(at.clone());
                    }
                }
                (Node::Text(_) | Node::Link(_) | Node::Folder, Node::Bind { .. }) => drop.push(at.clone()),
                (
                    Node::Bind { .. },
                    Node::Text(_) | Node::Device(_) | Node::Proc | Node::Pts | Node::Link(_),
                ) => {
                    return Err(Refusal::PathRefused {
                        path: at.clone(),
                        why: "another part of the jail stands at that place",
                    });
                }
                _ => {}
            }
        }
        for at in drop {
            self.nodes.remove(&at);
        }
        Ok(())
    }

    /// Empty folders for the places that mounts need and nothing else holds.
    fn folders(&mut self) {
        let paths: Vec<String> = self.nodes.keys().cloned().collect();
        for path in paths {
            let mut at = parent(&path);
            while !at.is_empty() {
                let in_bind =
                    self.holder(at).is_some_and(|holder| matches!(self.nodes[holder], Node::Bind { .. }));
                if in_bind || self.nodes.contains_key(at) {
                    break;
                }
                self.nodes.insert(at.to_owned(), Node::Folder);
                at = parent(at);
            }
        }
    }

    fn pruned_rules(&self) -> Vec<LandlockRule> {
        let covered = |at: &str, rights: &BTreeSet<Right>| {
            self.rules
                .iter()
                .any(|(above, more)| above != at && beneath(above, at).is_some() && rights.is_subset(more))
        };
        self.rules
            .iter()
            .filter(|(at, rights)| !covered(at, rights))
            .map(|(at, rights)| LandlockRule {
                at: JailPath(at.clone()),
                rights: rights.iter().copied().collect(),
            })
            .collect()
    }
}

/// What is left of `path` below `above`: empty for itself, else with a slash in front.
pub(super) fn beneath<'a>(above: &str, path: &'a str) -> Option<&'a str> {
    let rest = path.strip_prefix(above.strip_suffix('/').unwrap_or(above))?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// The folder that holds a path; empty for what stands in the root.
fn parent(path: &str) -> &str {
    path.rfind('/').map_or("", |slash| &path[..slash])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(source: &str, access: Access) -> Bind {
        Bind { source: HostPath(source.to_owned()), access, execute: Execute::Refused, idmap: IdMap::AsIs }
    }

    fn paths(layout: Layout) -> Vec<String> {
        layout.finish().unwrap().0.into_iter().map(|mount| mount.at.0).collect()
    }

    #[test]
    fn a_tree_inside_a_bound_tree_is_mounted_again_only_for_more_rights() {
        let mut layout = Layout::default();
        layout.bind("/d", bind("/d", Access::ReadOnly)).unwrap();
        layout.bind("/d/r", bind("/d/r", Access::ReadOnly)).unwrap();
        layout.bind("/d/w", bind("/d/w", Access::ReadWrite)).unwrap();
        assert_eq!(paths(layout), ["/d", "/d/w"]);
    }

    #[test]
    fn places_behind_links_are_found() {
        let mut layout = Layout::default();
        layout.bind("/usr", bind("/usr", Access::ReadOnly)).unwrap();
        layout.put("/lib", Node::Link("usr/lib".to_owned()));
        assert_eq!(layout.bind("/lib/x", bind("/usr/lib/x", Access::ReadWrite)).unwrap(), "/usr/lib/x");
        assert_eq!(layout.seen(&HostPath("/usr/lib/y".to_owned())).unwrap(), "/usr/lib/y");
    }

    #[test]
    fn a_granted_link_in_a_granted_tree_gets_what_it_leads_to() {
        let mut layout = Layout::default();
        layout.bind("/d", bind("/d", Access::ReadOnly)).unwrap();
        layout.bind("/d/link", bind("/srv/x", Access::ReadOnly)).unwrap();
        assert_eq!(paths(layout), ["/d", "/srv", "/srv/x"]);
    }

    #[test]
    fn folders_lead_to_each_mount() {
        let mut layout = Layout::default();
        layout.bind("/a/b/c", bind("/a/b/c", Access::ReadOnly)).unwrap();
        assert_eq!(paths(layout), ["/a", "/a/b", "/a/b/c"]);
    }
}
