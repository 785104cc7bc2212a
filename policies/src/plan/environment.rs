//! Variables: the jail's are the policy's and those of the caller that the ceiling names. Nothing else passes.

use super::decide::WORKDIR;
use crate::{
    capability::Capability,
    request::{Request, Subject, Terminal},
    scope::Target,
};
use std::collections::BTreeMap;

/// Where commands are looked up unless the policy says otherwise.
pub(crate) const SEARCH_PATH: &str = "/usr/bin:/bin";

/// The whole environment of the jail.
pub(super) fn environment(request: &Request) -> BTreeMap<String, String> {
    let mut environment = BTreeMap::new();
    if let Subject::Command { .. } = request.subject {
        environment.insert("PATH".to_owned(), SEARCH_PATH.to_owned());
        environment.insert("HOME".to_owned(), WORKDIR.to_owned());
        environment.extend(request.set.clone());
        // A program on a terminal needs to know which kind; the name is no secret.
        if request.terminal == Terminal::Own
            && let Some(term) = request.callers.get("TERM")
        {
            environment.entry("TERM".to_owned()).or_insert_with(|| term.clone());
        }
    }
    for (name, value) in &request.callers {
        let named = |capability| request.ceiling.covers(capability, Target::Name(name));
        if named(Capability::Env) || named(Capability::Secret) {
            environment.insert(name.clone(), value.clone());
        }
    }
    environment
}

/// The small /etc of the jail.
pub(super) fn etc(shell: &str) -> [(&'static str, String); 4] {
    [
        (
            "/etc/passwd",
            format!(
                "root:x:0:0:root:/:/usr/sbin/nologin\nuser:x:1000:1000:user:{WORKDIR}:{shell}\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
            ),
        ),
        ("/etc/group", "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n".to_owned()),
        ("/etc/hosts", "127.0.0.1 localhost jail\n::1 localhost\n".to_owned()),
        ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n".to_owned()),
    ]
}
