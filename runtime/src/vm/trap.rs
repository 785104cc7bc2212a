//! The closed list of ways to stop.

/// Why a run stopped before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// An error of the program: `recover` catches it.
    Raised(Raised),
    /// `exit(code)`.
    Exit(i32),
    /// A limit was passed: nothing catches it.
    Trap(Trap),
    /// The task waits; it is no end, and nothing unwinds.
    Wait,
    /// The run was cancelled from outside.
    Cancelled(String),
}

/// Limits of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trap {
    /// The fuel is used up.
    Fuel,
    /// The heap's limit was passed.
    Memory,
}

impl Trap {
    /// As reports name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Trap::Fuel => "fuel",
            Trap::Memory => "memory",
        }
    }
}

/// An error of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raised {
    /// Without category and place: what `recover` sees.
    pub message: String,
    /// File index and byte offset; `None` for a denial.
    pub place: Option<(u32, u32)>,
    /// Whether the gate denied it.
    pub denied: bool,
    /// Functions that were running, innermost first, with the place of each.
    pub stack: Vec<(String, u32, u32)>,
    /// Of what kind it is, and where it comes from if that is elsewhere.
    pub origin: Option<Box<Origin>>,
}

/// An error's kind and source, where these aren't the running program's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// As programs tell them apart.
    pub kind: std::rc::Rc<str>,
    /// Where it was raised, if it was raised elsewhere.
    pub elsewhere: Option<Elsewhere>,
}

/// Another actor or partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// Name of the partition.
    pub name: std::rc::Rc<str>,
    /// Its line, 0 if there is none.
    pub line: i64,
    /// The number of an actor of the same partition.
    pub actor: Option<u32>,
}

/// A stop on its way out, boxed to keep results small.
pub type Fault = Box<Stop>;

/// Bytes from which on a message costs fuel.
const LONG: usize = 512;

/// A long message shows a long value: making it is paid for here, once for all that raise. An exact partition's messages are
/// cut before they are made.
fn paid(message: &str) {
    if message.len() >= LONG {
        // With the fuel used up, the next look at the limits ends the program.
        let _left = crate::partition::heap::work(message.len() / 32);
    }
}

/// An error with a message; the machine adds the place.
pub(crate) fn raised(message: impl Into<String>) -> Fault {
    let message = message.into();
    paid(&message);
    Box::new(Stop::Raised(Raised { message, place: None, denied: false, stack: Vec::new(), origin: None }))
}

/// An error of a kind that programs tell apart.
pub(crate) fn of_kind(kind: &str, message: impl Into<String>) -> Fault {
    from(Origin { kind: kind.into(), elsewhere: None }, message.into())
}

/// An error of another actor or partition.
pub(crate) fn from(origin: Origin, message: String) -> Fault {
    let origin = Some(Box::new(origin));
    Box::new(Stop::Raised(Raised { message, place: None, denied: false, stack: Vec::new(), origin }))
}

/// A denial: no place is ever added.
pub(crate) fn denied(message: String) -> Fault {
    paid(&message);
    Box::new(Stop::Raised(Raised { message, place: None, denied: true, stack: Vec::new(), origin: None }))
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        if message == super::ops::OUT_OF_MEMORY {
            return Box::new(Stop::Trap(Trap::Memory));
        }
        if message == super::ops::OUT_OF_FUEL {
            return Box::new(Stop::Trap(Trap::Fuel));
        }
        raised(message)
    }
}

impl From<&str> for Fault {
    fn from(message: &str) -> Self {
        raised(message)
    }
}

impl From<super::compare::Incomparable> for Fault {
    fn from(e: super::compare::Incomparable) -> Self {
        e.0.into()
    }
}
