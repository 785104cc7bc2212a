//! A partition whose fuel and bytes are defined by its language, to the unit: what is charged is charged before what
//! it pays for, and collection is a part of the model.
//!
//! Invariant: `allocated` is what was live after the last collection and what has been allocated since; nothing is
//! made without `allocate`.

use super::boundary::HostFunction;
use super::{Core, heap};
use crate::vm::shared::{Shared, sizes};
use crate::vm::tasks::Tasks;
use crate::vm::trap::{Fault, Stop, Trap};
use crate::vm::value::{CellBox, Closure, Entries, Seed, Text, Value};
use std::rc::{Rc, Weak};

/// Bytes that are never collected before.
const FIRST: i64 = 1 << 20;
/// Bytes of a text that may need no place on the heap.
const SHORT: usize = 15;
/// Bytes of a text that is kept to be written again.
const SCRATCH: usize = 256;
/// Suspects that are never looked through before.
const SWEEP: usize = 1024;

/// What such a partition is given.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    /// As errors name it.
    pub(crate) name: Rc<str>,
    pub(crate) memory: i64,
    /// Call frames at most.
    pub(crate) calls: usize,
    /// Containers inside one another in a value that crosses.
    pub(crate) depth: usize,
    /// It holds nothing, and no reference ever comes in.
    pub(crate) sandbox: bool,
}

/// The state of an exact partition.
pub(crate) struct Exact {
    /// Whether the partition is one.
    pub(crate) on: bool,
    pub(crate) terms: Terms,
    allocated: i64,
    /// Bytes of call frames.
    frames: i64,
    /// Bytes from which on there is a collection.
    due: i64,
    /// The least of `due`, the limit and the room: beyond it there is something to be done.
    threshold: i64,
    /// Bytes that the partition around this one has left for it.
    room: i64,
    /// The room was passed, and no limit of its own: it is the partition around this one that has run out.
    pub(crate) crowded: bool,
    /// Bytes of sandboxes inside this one.
    outside: i64,
    /// Containers that may be part of a cycle.
    shared: Vec<Weak<Shared>>,
    /// How many of them, or of the captured variables, are looked through for dead ones.
    sweep_at: [usize; 2],
    pub(crate) tasks: Tasks,
    /// Where the last `return` of a task's first function stands.
    pub(crate) returned: (u32, u32),
    /// Where a limit was passed.
    pub(crate) stopped: (u32, u32),
    pub(crate) hosts: Rc<[HostFunction]>,
    /// Fuel limit of a turn, for messages.
    pub(crate) fuel: Option<u64>,
    /// Short texts are made here.
    scratch: String,
}

impl Exact {
    /// The state of a partition that isn't exact.
    pub(crate) fn off() -> Self {
        let terms = Terms { name: "".into(), memory: i64::MAX, calls: usize::MAX, depth: 64, sandbox: false };
        Self { on: false, ..Self::on(terms) }
    }

    pub(crate) fn on(terms: Terms) -> Self {
        Self {
            on: true,
            allocated: 0,
            frames: 0,
            due: terms.memory.min(FIRST),
            threshold: terms.memory.min(FIRST),
            room: i64::MAX,
            crowded: false,
            outside: 0,
            shared: Vec::new(),
            sweep_at: [SWEEP; 2],
            tasks: Tasks::default(),
            returned: (0, 0),
            stopped: (0, 0),
            hosts: Rc::new([]),
            fuel: None,
            scratch: String::new(),
            terms,
        }
    }

    /// Bytes counted now.
    pub(crate) fn bytes(&self) -> i64 {
        self.allocated + self.frames
    }

    /// Bytes that are left, sandboxes counted too.
    pub(crate) fn left(&self) -> i64 {
        self.terms.memory - self.outside - self.bytes()
    }

    fn set_threshold(&mut self) {
        self.threshold = self.due.min(self.terms.memory - self.outside).min(self.room);
    }

    /// At most so many bytes, as long as the partition around has no more.
    pub(crate) fn set_room(&mut self, room: i64) {
        self.room = room;
        self.set_threshold();
    }

    /// Counts a call frame, unless there is more to it than counting: then nothing has happened.
    #[inline]
    pub(crate) fn enter(&mut self, calls: usize, bytes: u32) -> bool {
        let frames = self.frames + i64::from(bytes);
        if calls >= self.terms.calls || self.allocated + frames > self.threshold {
            return false;
        }
        self.frames = frames;
        true
    }

    #[inline]
    pub(crate) fn leave_frame(&mut self, bytes: u32) {
        self.frames -= i64::from(bytes);
    }

    /// The counts of a partition whose objects have just been made.
    pub(crate) fn begin_with(&mut self, live: i64) {
        self.allocated = live;
        self.due = self.terms.memory.min(FIRST.max(2 * live));
        self.set_threshold();
    }

    /// An empty text to write into, with room for so many bytes; [`made`](Self::made) takes it.
    pub(crate) fn text(&mut self, length: usize) -> String {
        if length > SHORT { String::with_capacity(length) } else { std::mem::take(&mut self.scratch) }
    }

    /// A string whose bytes have been allocated.
    pub(crate) fn made(&mut self, mut text: String, bytes: usize) -> Value {
        if text.len() <= SHORT
            && let Some(short) = Value::text_if_short(&text)
        {
            if text.capacity() <= SCRATCH {
                text.clear();
                self.scratch = text;
            }
            return short;
        }
        Value::Text(Rc::new(Text::counted(text, bytes)))
    }

    /// What may hold a cycle: taken at the partition's end.
    pub(crate) fn take_shared(&mut self) -> Vec<Weak<Shared>> {
        std::mem::take(&mut self.shared)
    }
}

impl Core {
    /// Pays for so many bytes, collects if the model says so, and counts them.
    ///
    /// # Errors
    /// The fuel or the memory is used up.
    #[inline]
    pub(crate) fn allocate(&mut self, bytes: usize) -> Result<(), Fault> {
        self.charge(bytes.div_ceil(32) as u64)?;
        self.take_bytes(bytes)
    }

    /// Counts bytes that cost no fuel: frames and captured variables.
    #[inline]
    pub(crate) fn take_bytes(&mut self, bytes: usize) -> Result<(), Fault> {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
        if self.exact.bytes() + bytes > self.exact.threshold {
            self.gather(bytes)?;
        }
        self.exact.allocated += bytes;
        Ok(())
    }

    #[inline]
    pub(crate) fn enter_frame(&mut self, bytes: u32) -> Result<(), Fault> {
        self.take_bytes(bytes as usize)?;
        self.exact.allocated -= i64::from(bytes);
        self.exact.frames += i64::from(bytes);
        Ok(())
    }

    /// Counts what sandboxes use now.
    ///
    /// # Errors
    /// It is more than this partition has.
    pub(crate) fn count_sandboxes(&mut self) -> Result<(), Fault> {
        let outside = self.exact.tasks.sandboxes.bytes();
        if outside != self.exact.outside {
            self.exact.outside = outside;
            self.exact.set_threshold();
            if self.exact.left() < 0 {
                return self.collect(0);
            }
        }
        Ok(())
    }

    /// Makes room for so many bytes: the one place where limits answer, the innermost first.
    ///
    /// What the partition itself does by its language's model, its own collections and its own limit, never depends on the
    /// partition around it; only what passes there is asked of the room outside.
    #[cold]
    pub(crate) fn gather(&mut self, bytes: i64) -> Result<(), Fault> {
        let own = self.exact.due.min(self.exact.terms.memory - self.exact.outside);
        if self.exact.bytes() + bytes > own {
            self.collect(bytes)?;
        }
        if self.exact.bytes() + bytes <= self.exact.room {
            return Ok(());
        }
        // Only what really lives is in the way of others.
        if heap::live() + self.exact.frames + bytes > self.exact.room {
            self.exact.crowded = true;
            return Err(Box::new(Stop::Trap(Trap::Memory)));
        }
        Ok(())
    }

    /// A collection, because of so many bytes.
    pub(crate) fn collect(&mut self, bytes: i64) -> Result<(), Fault> {
        let cells = std::mem::take(&mut *self.cells.borrow_mut());
        let shared = std::mem::take(&mut self.exact.shared);
        let mut suspects: Vec<Value> = cells.iter().filter_map(Weak::upgrade).map(Value::Cell).collect();
        suspects.extend(shared.iter().filter_map(Weak::upgrade).map(Value::Shared));
        crate::vm::cycles::collect(suspects);
        *self.cells.borrow_mut() = cells.into_iter().filter(|c| c.strong_count() > 0).collect();
        self.exact.shared = shared.into_iter().filter(|s| s.strong_count() > 0).collect();
        self.exact.allocated = heap::live();
        let live = self.exact.bytes();
        let limit = self.exact.terms.memory;
        self.exact.due = limit.min(FIRST.max(2 * live));
        self.exact.outside = self.exact.tasks.sandboxes.bytes();
        self.exact.set_threshold();
        self.charge(live.max(0) as u64 / 64)?;
        if live + bytes > limit - self.exact.outside {
            return Err(Box::new(Stop::Trap(Trap::Memory)));
        }
        Ok(())
    }

    // ---- objects ----

    /// A task or an actor: what it holds may lead back to it.
    pub(crate) fn known_task(&mut self, shared: &Rc<Shared>) {
        self.suspected(Rc::downgrade(shared));
    }

    /// Remembers a suspect. Dead ones are forgotten when they may be half of all: one that is known keeps its place in the
    /// host's memory, and an actor counts no byte that would bring a collection nearer.
    fn suspected(&mut self, suspect: Weak<Shared>) {
        let all = &mut self.exact.shared;
        if all.len() >= self.exact.sweep_at[0] {
            all.retain(|one| one.strong_count() > 0);
            all.shrink_to(2 * all.len() + SWEEP);
            self.exact.sweep_at[0] = 2 * all.len() + SWEEP;
        }
        all.push(suspect);
    }

    /// Remembers a captured variable, in the same way.
    fn known_cell(&mut self, cell: &Rc<CellBox>) {
        let all = self.cells.get_mut();
        if all.len() >= self.exact.sweep_at[1] {
            all.retain(|one| one.strong_count() > 0);
            all.shrink_to(2 * all.len() + SWEEP);
            self.exact.sweep_at[1] = 2 * all.len() + SWEEP;
        }
        all.push(Rc::downgrade(cell));
    }

    /// Something is put into a container that exists already.
    #[inline]
    pub(crate) fn suspect(&mut self, holder: &Value, value: &Value) {
        if value.is_container()
            && let Value::Shared(shared) = holder
            && shared.mark()
        {
            self.suspected(Rc::downgrade(shared));
        }
    }

    /// A string made at run time.
    pub(crate) fn string(&mut self, text: String) -> Result<Value, Fault> {
        let bytes = sizes::text(text.len());
        self.allocate(bytes)?;
        Ok(Self::counted_text(text, bytes))
    }

    /// A string whose bytes have been allocated.
    pub(crate) fn counted_text(text: String, bytes: usize) -> Value {
        match tinystr::TinyAsciiStr::try_from_utf8(text.as_bytes()) {
            Ok(short) => Value::Short(short),
            Err(_) => Value::Text(Rc::new(Text::counted(text, bytes))),
        }
    }

    /// An array of exactly these elements.
    pub(crate) fn array(&mut self, items: Vec<Value>) -> Result<Value, Fault> {
        self.allocate(sizes::ARRAY + sizes::SLOT * items.len())?;
        Ok(self.free_array(items))
    }

    /// An array whose bytes have been allocated.
    pub(crate) fn free_array(&mut self, items: Vec<Value>) -> Value {
        Value::Shared(Shared::array(items))
    }

    /// A record with room for so many fields.
    pub(crate) fn record(&mut self, capacity: usize) -> Result<Value, Fault> {
        self.allocate(sizes::RECORD + sizes::ENTRY * capacity)?;
        Ok(self.free_record(capacity))
    }

    pub(crate) fn free_record(&mut self, capacity: usize) -> Value {
        let entries = Entries::with_capacity_and_hasher(capacity.min(1 << 16), Seed::default());
        Value::Shared(Shared::record(entries, capacity))
    }

    /// A record of fields whose names stand in the source or in the runtime.
    pub(crate) fn record_of(&mut self, fields: Vec<(&str, Value)>) -> Result<Value, Fault> {
        self.allocate(sizes::RECORD + sizes::ENTRY * fields.len())?;
        let count = fields.len();
        let entries: Entries =
            fields.into_iter().map(|(name, value)| (crate::vm::shared::key(name), value)).collect();
        Ok(Value::Shared(Shared::record(entries, count)))
    }

    pub(crate) fn tagged(&mut self, tag: &Rc<str>, value: Value) -> Result<Value, Fault> {
        self.allocate(sizes::TAGGED)?;
        Ok(Value::Shared(Shared::tagged(tag.clone(), value)))
    }

    /// Makes room for one more element.
    pub(crate) fn grow_array(
        &mut self,
        array: &crate::vm::shared::Array,
        needed: usize,
    ) -> Result<(), Fault> {
        let capacity = array.capacity();
        if needed > capacity {
            let to = crate::vm::shared::grown(capacity, needed);
            self.allocate(sizes::SLOT * (to - capacity))?;
            array.count_to(to);
        }
        Ok(())
    }

    /// Makes room for one more field.
    pub(crate) fn grow_table(
        &mut self,
        table: &crate::vm::shared::Table,
        needed: usize,
    ) -> Result<(), Fault> {
        let capacity = table.capacity();
        if needed > capacity {
            let to = crate::vm::shared::grown(capacity, needed);
            self.allocate(sizes::ENTRY * (to - capacity))?;
            table.count_to(to);
        }
        Ok(())
    }

    /// A captured variable.
    pub(crate) fn counted_cell(&mut self, value: Value) -> Result<Value, Fault> {
        self.take_bytes(sizes::CELL)?;
        let cell = Rc::new(CellBox::counted(value, sizes::CELL));
        self.known_cell(&cell);
        Ok(Value::Cell(cell))
    }

    /// A captured variable of a state that is restored; its bytes have been counted.
    pub(crate) fn restored_cell(&mut self) -> Rc<CellBox> {
        let cell = Rc::new(CellBox::counted(Value::Unbound, sizes::CELL));
        self.known_cell(&cell);
        cell
    }

    /// A closure.
    pub(crate) fn counted_closure(
        &mut self,
        proto: &Rc<crate::bytecode::Proto>,
        captured: Box<[Value]>,
    ) -> Result<Value, Fault> {
        let bytes = if proto.fixed { 0 } else { sizes::CLOSURE + sizes::SLOT * captured.len() };
        self.allocate(bytes)?;
        Ok(Value::Task(Rc::new(Closure::counted(proto.clone(), captured, bytes))))
    }
}
