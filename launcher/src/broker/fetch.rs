//! Requests of HTTP and prompts for a model, on their way through clients outside the jail.
//!
//! Invariant: a request is read, held to what a request may be, and its host asked for in the ceiling here, before a
//! client hears of it; the client asks once more before it dials.
//! Invariant: the model's key goes from the launcher's environment to the client that asks the provider, and nowhere else: no
//! other fork has it (`sys/wiped_on_fork.rs`), no message and no entry carries it.
//! Invariant: bodies are files. No byte of them is kept in this process, but those of a prompt while it is sent.

use super::{Reply, files::No};
use crate::{
    egress::{
        Reached, Walls,
        client::{Client, Done, Job, Provider, Setup},
    },
    sys::{memory_file, wiped_on_fork::WipedOnFork},
};
use nix::errno::Errno;
use policies::{
    audit::{Entry, Origin},
    broker::{Answer, MOST_PIECE},
    capability::Capability,
    ceiling::{Ceiling, Grant, check_form},
    fetch::{Aim, Failure, Fetch, Form, MOST_BODY, ModelState, Outcome, Prompt, Purpose, unfit},
    layer::Layer,
    plan::{NamedNetwork, Plan},
    scope::Target,
    turns::Turns,
};
use std::{
    fs::File,
    io::{Read, Seek, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// Longest prompt, in bytes.
const MOST_PROMPT: usize = 1 << 20;
/// Most tokens of one answer.
const MOST_TOKENS: u32 = 8192;
/// Until a model has answered.
const MODEL_MS: u64 = 120_000;

/// What a jail's runtime reaches outside of files and children.
#[derive(Debug)]
pub struct Outside {
    walls: Walls,
    /// Certificates of the authorities, instead of the host's own.
    roots: Option<PathBuf>,
    model: Option<Model>,
    /// Tokens of models for the whole run, its children's among them.
    tokens: Option<u64>,
    home: Option<OwnedFd>,
}

/// A provider, as the host has set it up.
pub struct Model {
    provider: Provider,
    name: String,
    at: Aim,
    key: Option<Arc<WipedOnFork>>,
    budget: Option<u64>,
}

impl std::fmt::Debug for Model {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Model")
            .field("provider", &self.provider)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl Outside {
    /// With the layers of a plan, the host's own certificates, and no model.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        Self { walls: Walls::of(plan), roots: None, model: None, tokens: None, home: None }
    }

    /// Without the layers of any plan, for tests: what it starts keeps what every such process gives up.
    #[must_use]
    pub fn bare() -> Self {
        Self { walls: Walls::none(), roots: None, model: None, tokens: None, home: None }
    }

    /// With certificates of the authorities from that file.
    #[must_use]
    pub fn with_roots(self, roots: Option<PathBuf>) -> Self {
        Self { roots, ..self }
    }

    /// In that network, and not in the one where this process is.
    #[must_use]
    pub fn in_network(self, home: Option<OwnedFd>) -> Self {
        Self { home, ..self }
    }

    /// A client's share of it.
    pub(super) fn setup(&self, network: NamedNetwork, reached: Reached) -> Result<Setup, No> {
        let home = self.home.as_ref().map(OwnedFd::try_clone).transpose();
        Ok(Setup {
            network,
            reached,
            walls: self.walls,
            roots: self.roots.clone(),
            home: home.map_err(|_| No::kernel(Errno::EMFILE))?,
            key: None,
        })
    }

    /// With a model.
    #[must_use]
    pub fn with_model(self, model: Option<Model>) -> Self {
        Self { model, ..self }
    }

    /// With so many tokens of models at most, whatever the model's own budget says.
    #[must_use]
    pub fn within(self, tokens: Option<u64>) -> Self {
        Self { tokens, ..self }
    }

    /// Tokens of models that may be used.
    fn budget(&self) -> Option<u64> {
        let own = self.model.as_ref().and_then(|model| model.budget);
        own.into_iter().chain(self.tokens).min()
    }
}

impl Model {
    /// The variables that have providers' keys.
    pub(crate) const KEYS: [&'static str; 2] = Provider::KEYS;

    /// Whether a program under this ceiling may ask one at all.
    #[must_use]
    pub fn may_be_asked(ceiling: &Ceiling) -> bool {
        [Capability::Llm, Capability::Judge].iter().any(|capability| ceiling.has(*capability))
    }

    /// From the host's variables; `None`: no provider is named.
    ///
    /// `variable` reads those that may come from a program that started this one, `host` only the launcher's own: where
    /// the provider is, no program says. `key` has the provider's key.
    ///
    /// # Errors
    /// What is missing or wrong, and in which variable.
    pub(crate) fn read(
        variable: &dyn Fn(&str) -> Option<String>,
        host: &dyn Fn(&str) -> Option<String>,
        key: &dyn Fn(&str) -> Option<Arc<WipedOnFork>>,
    ) -> Result<Option<Self>, String> {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let Some(named) = given("SYNSEMA_LLM_PROVIDER").filter(|name| name != "offline") else {
            return Ok(None);
        };
        let provider = Provider::named(&named).ok_or_else(|| {
            format!("SYNSEMA_LLM_PROVIDER is '{named}'; it is openai, anthropic or offline")
        })?;
        let name = given("SYNSEMA_LLM_MODEL").ok_or("SYNSEMA_LLM_MODEL doesn't say which model")?;
        let base = host("SYNSEMA_LLM_BASE_URL").filter(|url| !url.is_empty());
        let base = base.as_deref().unwrap_or(provider.base_url()).trim_end_matches('/');
        let at = Aim::parse(&format!("{base}/{}", provider.path()))
            .map_err(|why| format!("SYNSEMA_LLM_BASE_URL: {why}"))?;
        let key = key(provider.key_variable()).filter(|key| !key.text().is_empty());
        // Without a copy: the header's value is looked at where it stands.
        if key.as_ref().is_some_and(|key| key.text().bytes().any(|byte| byte.is_ascii_control())) {
            return Err(format!("{} has a line break or control character", provider.key_variable()));
        }
        let budget = match given("SYNSEMA_LLM_BUDGET") {
            None => None,
            Some(text) => Some(
                text.parse().map_err(|_| format!("SYNSEMA_LLM_BUDGET is '{text}', no number of tokens"))?,
            ),
        };
        Ok(Some(Self { provider, name, at, key, budget }))
    }
}

/// Whose client a request went to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Program,
    Model,
}

#[derive(Debug)]
struct Pending {
    id: u32,
    of: Of,
    /// By which it was granted.
    capability: Capability,
    /// Host and port, for the audit.
    target: String,
}

/// The requests of one jail.
#[derive(Debug)]
pub(super) struct Outgoing {
    outside: Outside,
    program: Option<Client>,
    model: Option<Client>,
    body: Option<File>,
    bytes: usize,
    pending: Option<Pending>,
    calls: u64,
    used: u64,
}

impl Outgoing {
    pub(super) fn new(outside: Outside) -> Self {
        Self { outside, program: None, model: None, body: None, bytes: 0, pending: None, calls: 0, used: 0 }
    }

    /// How the outside is reached.
    pub(super) fn outside(&self) -> &Outside {
        &self.outside
    }

    /// The next piece of a body.
    pub(super) fn collect(&mut self, piece: &[u8]) -> Result<(), No> {
        self.bytes = self.bytes.saturating_add(piece.len());
        if self.bytes > MOST_BODY {
            self.bytes = 0;
            self.body = None;
            return Err(No::limit("a body of more than 8 MiB"));
        }
        let mut file = match self.body.take() {
            Some(file) => file,
            None => memory_file::empty().map(File::from).map_err(No::kernel)?,
        };
        file.write_all(piece).map_err(|_| No::kernel(Errno::EIO))?;
        self.body = Some(file);
        Ok(())
    }

    fn collected(&mut self) -> Result<Option<(File, u64)>, No> {
        let bytes = std::mem::take(&mut self.bytes) as u64;
        let Some(mut body) = self.body.take() else { return Ok(None) };
        body.rewind().map_err(|_| No::kernel(Errno::EIO))?;
        Ok(Some((body, bytes)))
    }

    /// Begins a request of HTTP.
    pub(super) fn fetch(&mut self, id: u32, fetch: Fetch, ceiling: &Ceiling) -> Result<(), No> {
        let body = self.collected()?;
        let aim = Aim::parse(&fetch.url).map_err(|why| No::misuse(format!("the URL: {why}")))?;
        let target = format!("{}:{}", aim.target.host, aim.target.port);
        if !ceiling.covers(Capability::Net, Target::Host(&aim.target)) {
            return Err(No::ceiling(Capability::Net, Some(&target)));
        }
        if let Some(why) = unfit(&fetch.method, &fetch.fields) {
            return Err(No::misuse(why));
        }
        let takes_none = matches!(fetch.method.as_str(), "GET" | "HEAD");
        let length = match &body {
            Some((_, bytes)) => Some(*bytes),
            // A method that means to send something says that it is empty.
            None => (!takes_none).then_some(0),
        };
        let job = Job {
            method: fetch.method,
            tls: aim.tls,
            host: aim.target.host.to_string(),
            port: aim.target.port,
            authority: aim.authority(),
            path: aim.path,
            fields: fetch.fields,
            body: length,
            timeout_ms: fetch.timeout_ms,
            most: fetch.most,
            provider: None,
            form: Form::Text,
        };
        if self.program.is_none() {
            let network = NamedNetwork::of_language(ceiling)
                .ok_or_else(|| No::ceiling(Capability::Net, Some(&target)))?;
            self.program = Some(Client::new(self.outside.setup(network, Reached::Public)?));
        }
        let Some(client) = &mut self.program else { return Err(No::kernel(Errno::ECHILD)) };
        client.begin(&job, body.as_ref().map(|(file, _)| file.as_fd())).map_err(No::kernel)?;
        self.pending = Some(Pending { id, of: Of::Program, capability: Capability::Net, target });
        Ok(())
    }

    /// Begins a prompt; where none can be sent, the answer is there at once.
    pub(super) fn prompt(
        &mut self,
        id: u32,
        prompt: &Prompt,
        ceiling: &Ceiling,
    ) -> Result<Option<Reply>, No> {
        let body = self.collected()?;
        let capability = match prompt.purpose {
            Purpose::Operation => Capability::Llm,
            Purpose::Judgement => Capability::Judge,
        };
        if !ceiling.covers(capability, Target::Whole) {
            return Err(No::ceiling(capability, None));
        }
        let Some(model) = &self.outside.model else { return outcome(&Outcome::Offline).map(Some) };
        let left = match self.outside.budget() {
            Some(of) if self.used >= of => return outcome(&Outcome::Spent { used: self.used, of }).map(Some),
            Some(of) => u32::try_from(of - self.used).unwrap_or(u32::MAX),
            None => u32::MAX,
        };
        let mut text = Vec::new();
        if let Some((file, bytes)) = body {
            if bytes > MOST_PROMPT as u64 {
                return Err(No::limit("a prompt of more than 1 MiB"));
            }
            file.take(bytes).read_to_end(&mut text).map_err(|_| No::kernel(Errno::EIO))?;
        }
        let text = String::from_utf8(text).map_err(|_| No::misuse("a prompt that is not UTF-8"))?;
        let most = prompt.most_tokens.clamp(1, MOST_TOKENS).min(left.max(1));
        let request = match prompt.form {
            Form::Text => model.provider.body(&model.name, &prompt.system, &text, most),
            Form::Turns => {
                let turns: Turns = serde_json::from_str(&text)
                    .map_err(|_| No::misuse("a conversation that can't be read"))?;
                if let Some(why) = turns.unfit() {
                    return Err(No::misuse(why));
                }
                model.provider.conversation(&model.name, &turns, most)
            }
        };
        let mut file = memory_file::empty().map(File::from).map_err(No::kernel)?;
        file.write_all(&request).and_then(|()| file.rewind()).map_err(|_| No::kernel(Errno::EIO))?;
        let target = format!("{}:{}", model.at.target.host, model.at.target.port);
        let job = Job {
            method: "POST".to_owned(),
            tls: model.at.tls,
            host: model.at.target.host.to_string(),
            port: model.at.target.port,
            authority: model.at.authority(),
            path: model.at.path.clone(),
            fields: Vec::new(),
            body: Some(request.len() as u64),
            timeout_ms: MODEL_MS,
            most: 0,
            provider: Some(model.provider),
            form: prompt.form,
        };
        if self.model.is_none() {
            let grant = Grant::new(Capability::Net, Some(&target)).map_err(|_| No::kernel(Errno::EINVAL))?;
            let network =
                NamedNetwork::of_language(&Ceiling::of([grant])).ok_or_else(|| No::kernel(Errno::EINVAL))?;
            let setup = self.outside.setup(network, Reached::Any)?;
            self.model = Some(Client::new(Setup { key: model.key.clone(), ..setup }));
        }
        let Some(client) = &mut self.model else { return Err(No::kernel(Errno::ECHILD)) };
        client.begin(&job, Some(file.as_fd())).map_err(No::kernel)?;
        self.pending = Some(Pending { id, of: Of::Model, capability, target });
        Ok(None)
    }

    /// What is known of the model.
    pub(super) fn state(&self) -> ModelState {
        ModelState {
            available: self.outside.model.is_some(),
            calls: self.calls,
            used: self.used,
            budget: self.outside.budget(),
        }
    }

    /// Tokens of the model that were used.
    pub(super) fn tokens(&self) -> u64 {
        self.used
    }

    /// Tokens that are left for a child.
    pub(super) fn left(&self) -> Option<u64> {
        self.outside.budget().map(|of| of.saturating_sub(self.used))
    }

    /// Counts what a child has used.
    pub(super) fn spent_below(&mut self, tokens: u64) {
        self.used = self.used.saturating_add(tokens);
    }

    pub(super) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    fn client(&mut self) -> Option<&mut Client> {
        match self.pending.as_ref()?.of {
            Of::Program => self.program.as_mut(),
            Of::Model => self.model.as_mut(),
        }
    }

    /// Readable when the request has come to an end.
    pub(super) fn answered(&self) -> Option<BorrowedFd<'_>> {
        match self.pending.as_ref()?.of {
            Of::Program => self.program.as_ref()?.answered(),
            Of::Model => self.model.as_ref()?.answered(),
        }
    }

    /// When it is not waited for any longer.
    pub(super) fn until(&self) -> Option<Instant> {
        match self.pending.as_ref()?.of {
            Of::Program => self.program.as_ref()?.until(),
            Of::Model => self.model.as_ref()?.until(),
        }
    }

    /// Takes what has become of the request: its number, the answer, and the entry about it.
    pub(super) fn take(&mut self, now: Instant) -> Option<(u32, Result<Reply, No>, Entry)> {
        let Done { outcome, body, bytes, granted, account, unread } = self.client()?.take(now)?;
        let Pending { id, of, capability, target } = self.pending.take()?;
        if let Outcome::Said { tokens } = outcome {
            self.calls += 1;
            self.used = self.used.saturating_add(tokens);
        }
        if of == Of::Model {
            self.used = self.used.saturating_add(unread);
        }
        let entry = Entry {
            ts: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
            context: "program".to_owned(),
            capability: check_form(capability, (of == Of::Program).then_some(target.as_str())),
            granted,
            source: "client".to_owned(),
            reason: account,
            origin: Origin::Program,
            file: None,
            line: None,
            seq: 0,
            layer: Layer::Network,
            target,
        };
        let reply = serde_json::to_vec(&outcome).map_err(|_| No::kernel(Errno::EINVAL)).and_then(|raw| {
            if raw.len() > MOST_PIECE {
                let why = "the fields of the answer take more than a message".to_owned();
                return self::outcome(&Outcome::Failed { kind: Failure::TooLarge, why });
            }
            Ok(Reply { raw, file: Some(body), ..Reply::of(Answer::Beside { bytes }) })
        });
        Some((id, reply, entry))
    }
}

/// An outcome without a body.
fn outcome(outcome: &Outcome) -> Result<Reply, No> {
    let raw = serde_json::to_vec(outcome).map_err(|_| No::kernel(Errno::EINVAL))?;
    let file = memory_file::sealed(&[]).map_err(No::kernel)?;
    Ok(Reply { raw, file: Some(file), ..Reply::of(Answer::Beside { bytes: 0 }) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Model>, String> {
        let get = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let key = |name: &str| Some(Arc::new(WipedOnFork::of(&get(name)?).unwrap()));
        Model::read(&get, &get, &key)
    }

    #[test]
    fn a_model_is_what_the_variables_say_and_nothing_prints_its_key() {
        assert!(read(&[]).unwrap().is_none());
        assert!(read(&[("SYNSEMA_LLM_PROVIDER", "offline"), ("OPENAI_API_KEY", "k")]).unwrap().is_none());
        let model = read(&[
            ("SYNSEMA_LLM_PROVIDER", "OpenAI"),
            ("SYNSEMA_LLM_MODEL", "m"),
            ("SYNSEMA_LLM_BASE_URL", "http://127.0.0.1:9/v1/"),
            ("OPENAI_API_KEY", "sk-123"),
            ("SYNSEMA_LLM_BUDGET", "500"),
        ]);
        let model = model.unwrap().unwrap();
        assert_eq!(
            (model.at.url.as_str(), model.budget),
            ("http://127.0.0.1:9/v1/chat/completions", Some(500))
        );
        assert!(!format!("{model:?}").contains("sk-"));
        let named = ("SYNSEMA_LLM_PROVIDER", "anthropic");
        for (name, value) in [
            ("SYNSEMA_LLM_BASE_URL", "ftp://x"),
            ("ANTHROPIC_API_KEY", "a\nb"),
            ("SYNSEMA_LLM_BUDGET", "many"),
        ] {
            let wrong = read(&[named, ("SYNSEMA_LLM_MODEL", "m"), (name, value)]);
            assert!(wrong.unwrap_err().contains(name), "{name}");
        }
        assert!(read(&[named]).unwrap_err().contains("SYNSEMA_LLM_MODEL"));
        assert!(read(&[("SYNSEMA_LLM_PROVIDER", "x")]).unwrap_err().contains("openai"));
    }
}
