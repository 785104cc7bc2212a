//! What a partition needs from outside. Everything comes through here, after the gate has agreed.

use policies::audit::Entry;
use std::rc::Rc;

/// The outside of a partition.
pub trait Host {
    /// One `print`: text without its newline.
    fn print(&mut self, text: &str);
    /// Text without the end of a line.
    fn print_part(&mut self, text: &str) {
        self.print(text);
    }
    /// Text for standard error.
    fn eprint(&mut self, text: &str);
    /// A decision of the gate.
    fn audit(&mut self, entry: Entry);
    /// A line of standard input without its end; `None` at the end of it.
    fn read_line(&mut self) -> Option<String> {
        None
    }
    /// Unix time in seconds.
    fn now(&mut self) -> f64 {
        0.0
    }
    /// Waits; whatever was printed goes out first.
    fn sleep(&mut self, _seconds: f64) {}
    /// Random bytes.
    fn random(&mut self, into: &mut [u8]) {
        into.fill(0);
    }
    /// The end of a slice of work, about each millisecond.
    fn tick(&mut self) {}

    /// A file that is a part of the program: packed with it, and read without a capability.
    fn asset(&self, _path: &str) -> Option<Rc<[u8]>> {
        None
    }

    /// Sends out what waits.
    fn flush(&mut self) {}
    /// Whether what was sent out has arrived, as far as can be told here.
    fn delivers(&self) -> bool {
        true
    }
    /// Words after the program's file.
    fn args(&self) -> Vec<String> {
        Vec::new()
    }
    /// An environment variable that the host passed on.
    fn env(&self, _name: &str) -> Option<String> {
        None
    }
    /// Names of the variables that the host passed on, sorted.
    fn env_names(&self) -> Vec<String> {
        Vec::new()
    }
    /// An act that needs the supervisor: its name and its arguments as JSON, the answer as JSON.
    ///
    /// # Errors
    /// What the program is told.
    fn request(&mut self, act: &str, _arguments: serde_json::Value) -> Result<serde_json::Value, String> {
        Err(format!("{act} is not available here"))
    }
    /// Asks the supervisor's broker for one act.
    ///
    /// # Errors
    /// There is no broker, or it can't be understood.
    fn broker(
        &mut self,
        _request: &policies::broker::Request,
        _raw: &[u8],
    ) -> Result<crate::broker::Reply, String> {
        Err("ask the supervisor: this run has none".to_owned())
    }
    /// Another handle to the same outside, for an agent.
    fn fork(&self) -> Option<Box<dyn Host>> {
        None
    }
    /// Whether a person can be asked.
    fn interactive(&self) -> bool {
        false
    }
    /// Whether keys may come by standard input.
    fn takes_keys(&self) -> bool {
        false
    }
    /// What has come by standard input, after so many seconds at most: nothing, or `None` at its end.
    fn keys(&mut self, _seconds: f64) -> Option<Vec<u8>> {
        None
    }
    /// Whether errors are explained: then each is told with its [`Scene`].
    fn explains(&self) -> bool {
        false
    }
    /// What could be seen where an error was raised.
    fn scene(&mut self, _scene: Scene) {}
    /// Whether somebody wants what runs to end. Each time that somebody wants it is told once.
    fn interrupted(&mut self) -> bool {
        false
    }
}

/// What could be seen where an error was raised; secrets as they are always shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scene {
    /// Names and renderings, innermost first, each cut to a line.
    pub variables: Vec<(String, String)>,
    /// The program's `intent`.
    pub intent: Option<String>,
}

/// A host that keeps all that it is told, for tests and embedding: it grows with what a program does.
#[derive(Debug, Default)]
pub struct Memory {
    /// Prints, one element each.
    pub output: Vec<String>,
    /// Text for standard error.
    pub errors: Vec<String>,
    /// Decisions of the gate.
    pub audit: Vec<Entry>,
    /// Words after the file.
    pub args: Vec<String>,
    /// Variables.
    pub env: std::collections::BTreeMap<String, String>,
    /// Lines of standard input, last first.
    pub input: Vec<String>,
    /// Its clock, in seconds: only waiting moves it.
    pub clock: f64,
    /// Its files, if it has any.
    pub files: Option<crate::partition::plain::Plain>,
}

impl Host for Memory {
    fn print(&mut self, text: &str) {
        self.output.push(text.to_owned());
    }

    fn eprint(&mut self, text: &str) {
        self.errors.push(text.to_owned());
    }

    fn audit(&mut self, entry: Entry) {
        self.audit.push(entry);
    }

    fn read_line(&mut self) -> Option<String> {
        self.input.pop()
    }

    fn now(&mut self) -> f64 {
        self.clock
    }

    fn sleep(&mut self, seconds: f64) {
        self.clock += seconds;
    }

    fn args(&self) -> Vec<String> {
        self.args.clone()
    }

    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }

    fn env_names(&self) -> Vec<String> {
        self.env.keys().cloned().collect()
    }

    fn broker(
        &mut self,
        request: &policies::broker::Request,
        _raw: &[u8],
    ) -> Result<crate::broker::Reply, String> {
        match &mut self.files {
            Some(files) => files.answer(request),
            None => Err("ask the supervisor: this run has none".to_owned()),
        }
    }
}

impl<H: Host + 'static> Host for std::rc::Rc<std::cell::RefCell<H>> {
    fn asset(&self, path: &str) -> Option<Rc<[u8]>> {
        self.borrow().asset(path)
    }

    fn print(&mut self, text: &str) {
        self.borrow_mut().print(text);
    }
    fn eprint(&mut self, text: &str) {
        self.borrow_mut().eprint(text);
    }
    fn audit(&mut self, entry: Entry) {
        self.borrow_mut().audit(entry);
    }
    fn read_line(&mut self) -> Option<String> {
        self.borrow_mut().read_line()
    }
    fn now(&mut self) -> f64 {
        self.borrow_mut().now()
    }
    fn sleep(&mut self, seconds: f64) {
        self.borrow_mut().sleep(seconds);
    }
    fn random(&mut self, into: &mut [u8]) {
        self.borrow_mut().random(into);
    }
    fn tick(&mut self) {
        self.borrow_mut().tick();
    }
    fn flush(&mut self) {
        self.borrow_mut().flush();
    }
    fn delivers(&self) -> bool {
        self.borrow().delivers()
    }
    fn args(&self) -> Vec<String> {
        self.borrow().args()
    }
    fn env(&self, name: &str) -> Option<String> {
        self.borrow().env(name)
    }
    fn env_names(&self) -> Vec<String> {
        self.borrow().env_names()
    }
    fn request(&mut self, act: &str, arguments: serde_json::Value) -> Result<serde_json::Value, String> {
        self.borrow_mut().request(act, arguments)
    }
    fn print_part(&mut self, text: &str) {
        self.borrow_mut().print_part(text);
    }

    fn takes_keys(&self) -> bool {
        self.borrow().takes_keys()
    }

    fn keys(&mut self, seconds: f64) -> Option<Vec<u8>> {
        self.borrow_mut().keys(seconds)
    }

    fn interactive(&self) -> bool {
        self.borrow().interactive()
    }
    fn interrupted(&mut self) -> bool {
        self.borrow_mut().interrupted()
    }
    fn explains(&self) -> bool {
        self.borrow().explains()
    }
    fn scene(&mut self, scene: Scene) {
        self.borrow_mut().scene(scene);
    }
    fn broker(
        &mut self,
        request: &policies::broker::Request,
        raw: &[u8],
    ) -> Result<crate::broker::Reply, String> {
        self.borrow_mut().broker(request, raw)
    }
    fn fork(&self) -> Option<Box<dyn Host>> {
        Some(Box::new(self.clone()))
    }
}
