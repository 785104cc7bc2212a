//! What is given to every program of a policy: the trees that it is made of, and its working folder.

use super::{
    Access, Execute, HostPath, IdMap, Node, Right,
    decide::WORKDIR,
    files::{Granting, refuse_kernel_trees},
    layout::{Bind, Layout, READ_TREE},
    wanted::Reach,
};
use crate::{
    error::{Needed, Refusal},
    policy::{Presence, Provided},
    request::{Found, Kind, PathQuery},
};

impl Granting<'_> {
    /// One provided tree: read only, its libraries executable.
    pub(super) fn provide(&mut self, layout: &mut Layout, provided: &[Provided]) -> Result<(), Refusal> {
        let mut links = Vec::new();
        for Provided { path, presence } in provided {
            refuse_kernel_trees(&path.0)?;
            match (self.one(&PathQuery::Path(path.clone())), presence) {
                (None, Presence::Optional) => {}
                (None, Presence::Required) => {
                    return Err(Refusal::MissingPath { path: path.0.clone(), needed_by: Needed::Policy });
                }
                // Links wait until the trees are there that they may lead into.
                (Some(found), _) => match &found.link {
                    Some(text) => links.push((found.clone(), text.clone())),
                    None => self.provide_tree(layout, &found.clone())?,
                },
            }
        }
        for (found, text) in links {
            if layout.seen(&found.real).is_some() {
                layout.put(&found.at.0, Node::Link(text));
            } else {
                self.provide_tree(layout, &found)?;
            }
        }
        Ok(())
    }

    /// Binds a tree or file that the program is made of.
    pub(super) fn provide_tree(&mut self, layout: &mut Layout, found: &Found) -> Result<(), Refusal> {
        self.check(found)?;
        let bind = Bind {
            source: found.real.clone(),
            access: Access::ReadOnly,
            execute: Execute::Allowed,
            idmap: match found.kind {
                Kind::File => self.idmap_of(found),
                Kind::Folder | Kind::Other => IdMap::AsIs,
            },
        };
        let at = layout.bind(&found.at.0, bind)?;
        layout.allow(&at, read_rights(found.kind));
        Ok(())
    }

    /// The host folder that was given as working folder.
    pub(super) fn workdir(
        &mut self,
        layout: &mut Layout,
        path: &HostPath,
        access: Access,
    ) -> Result<(), Refusal> {
        refuse_kernel_trees(&path.0)?;
        let found = self.one(&PathQuery::Path(path.clone())).cloned();
        let found =
            found.ok_or_else(|| Refusal::MissingPath { path: path.0.clone(), needed_by: Needed::Workdir })?;
        if found.kind != Kind::Folder {
            return Err(Refusal::PathRefused { path: path.0.clone(), why: "it is no folder" });
        }
        self.check(&found)?;
        if access == Access::ReadWrite {
            self.note_no_disk_limit(path);
        }
        let bind = Bind { source: found.real, access, execute: Execute::Refused, idmap: self.idmap };
        let at = layout.bind(WORKDIR, bind)?;
        layout.allow(
            &at,
            match access {
                Access::ReadOnly => Reach::Read.tree(),
                Access::ReadWrite => Reach::Both.tree(),
            },
        );
        Ok(())
    }
}

fn read_rights(kind: Kind) -> &'static [Right] {
    match kind {
        Kind::Folder => &READ_TREE,
        Kind::File | Kind::Other => &[Right::ReadFile],
    }
}
