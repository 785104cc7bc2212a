//! Bytes → values. First every object is made, empty where it can be changed later; then each is filled.

use super::bytes::In;
use super::{MAGIC, MAX_ACTORS, MAX_STATE, VERSION, hash, hash_of_source, kind};
use crate::error::StateError;
use crate::partition::{Core, heap};
use crate::scua::library::{self, Realm};
use crate::vm::shared::{Shared, sizes};
use crate::vm::strict;
use crate::vm::tasks::still::{Counters, Gone, Mail};
use crate::vm::trap::{Elsewhere, Origin, Raised};
use crate::vm::value::{CellBox, Closure, Key, Value};
use std::collections::HashMap;
use std::rc::Rc;

/// Makes a partition what it was. Its meter must be the current one. On an error nothing of it may be run.
///
/// # Errors
/// The bytes are no state of this program, or it doesn't fit.
pub(crate) fn read(core: &mut Core, bytes: &[u8]) -> Result<(), StateError> {
    if bytes.len() > MAX_STATE {
        return Err(StateError::TooLarge { limit: MAX_STATE });
    }
    let head = bytes.strip_prefix(&MAGIC).ok_or(StateError::NoState)?;
    let (version, _) = head.split_first().ok_or(StateError::NoState)?;
    if *version != VERSION {
        return Err(StateError::Version { found: *version, wanted: VERSION });
    }
    let mut input = In::new(bytes);
    let _head = input.take(MAGIC.len() + 1)?;
    if bytes.len() < MAGIC.len() + 1 + 64 {
        return Err(input.damaged("an early end"));
    }
    let (body, seal) = bytes.split_at(bytes.len() - 32);
    if hash(body) != seal {
        return Err(input.damaged("its hash"));
    }
    let mut input = In::new(body);
    let _head = input.take(MAGIC.len() + 1)?;
    if input.take(32)? != hash_of_source(&core.program) {
        return Err(StateError::OtherSource);
    }
    let mut reader = Reader {
        memory: core.exact.terms.memory,
        core,
        input,
        names: Vec::new(),
        texts: Vec::new(),
        tags: HashMap::new(),
        tops: HashMap::new(),
        cells: Vec::new(),
        arrays: Vec::new(),
        records: Vec::new(),
        tasks: Vec::new(),
        actors: Vec::new(),
        closures: Vec::new(),
        tagged: Vec::new(),
    };
    reader.all()
}

struct Reader<'a> {
    core: &'a mut Core,
    input: In<'a>,
    /// Bytes that may still be made.
    memory: i64,
    names: Vec<Rc<str>>,
    texts: Vec<Value>,
    /// One value for each bare tag.
    tags: HashMap<Rc<str>, Value>,
    /// One value for each function of the top level.
    tops: HashMap<u32, Value>,
    cells: Vec<Rc<CellBox>>,
    arrays: Vec<Rc<Shared>>,
    records: Vec<Rc<Shared>>,
    tasks: Vec<Rc<Shared>>,
    actors: Vec<Rc<Shared>>,
    closures: Vec<Option<Value>>,
    tagged: Vec<Option<Value>>,
}

impl Reader<'_> {
    fn spend(&mut self, bytes: usize) -> Result<(), StateError> {
        self.memory -= i64::try_from(bytes).unwrap_or(i64::MAX / 2).min(i64::MAX / 2);
        if self.memory < 0 {
            let limit = self.core.exact.terms.memory.max(0) as u64;
            return Err(StateError::Memory { limit });
        }
        Ok(())
    }

    fn all(&mut self) -> Result<(), StateError> {
        let counters = Counters {
            now: self.input.signed()?,
            next: self.input.number()?,
            tasks: self.input.small()?,
            actors: self.input.small()?,
        };
        // Half of each range is more than any program uses; nothing overflows from there.
        if counters.now < 0
            || counters.now > i64::MAX / 2
            || counters.next > u64::MAX / 2
            || counters.tasks > u32::MAX / 2
            || counters.actors > u32::MAX / 2
        {
            return Err(self.input.damaged("a counter"));
        }
        for _ in 0..self.input.count()? {
            let name = self.input.text()?.into();
            self.names.push(name);
        }
        for _ in 0..self.input.count()? {
            let counted = self.input.bool()?;
            let text = self.input.text()?;
            let bytes = if counted { sizes::text(text.len()) } else { 0 };
            self.spend(bytes)?;
            self.texts.push(Core::counted_text(text.to_owned(), bytes));
        }
        self.shells()?;
        self.contents()?;
        let mut globals = Vec::new();
        for _ in 0..self.input.count()? {
            let value = self.variable()?;
            globals.push(value);
        }
        self.globals(globals)?;
        let mut next = Vec::new();
        for _ in 0..self.input.count()? {
            if self.input.byte()? != kind::ACTOR {
                return Err(self.input.damaged("the queue"));
            }
            let at = self.input.index(self.actors.len())?;
            next.push(at);
        }
        if !self.input.is_empty() {
            return Err(self.input.damaged("bytes after its end"));
        }
        self.core.exact.tasks.set_counters(counters);
        let actors = std::mem::take(&mut self.actors);
        // Those that the queue doesn't name have no messages, unless somebody forged the state: they come last.
        for actor in next.iter().filter_map(|at| actors.get(*at)).chain(&actors) {
            self.core.wake_actor(actor);
        }
        self.core.exact.begin_with(heap::live());
        self.core.started = true;
        Ok(())
    }

    /// Makes all objects that can be filled later.
    fn shells(&mut self) -> Result<(), StateError> {
        let mut counts = [0; 7];
        for count in &mut counts {
            *count = self.input.count()?;
        }
        let [cells, arrays, records, tasks, actors, closures, tagged] = counts;
        if tasks + actors > MAX_ACTORS {
            return Err(StateError::TooLarge { limit: MAX_STATE });
        }
        let each = [
            (cells, sizes::CELL),
            (arrays, sizes::ARRAY),
            (records, sizes::RECORD),
            (tasks, sizes::TASK),
            (tagged, sizes::TAGGED),
        ];
        for (count, bytes) in each {
            self.spend(count.saturating_mul(bytes))?;
        }
        // Functions are paid for one by one, when it is known what they hold; that there is room for all comes first.
        let least = closures.saturating_mul(sizes::CLOSURE);
        self.spend(least)?;
        self.memory += i64::try_from(least).unwrap_or(i64::MAX / 2).min(i64::MAX / 2);
        for _ in 0..cells {
            let cell = self.core.restored_cell();
            self.cells.push(cell);
        }
        for _ in 0..arrays {
            let array = Shared::array(Vec::new());
            self.core.known_task(&array);
            array.mark();
            self.arrays.push(array);
        }
        for _ in 0..records {
            let record = Shared::record(Default::default(), 0);
            self.core.known_task(&record);
            record.mark();
            self.records.push(record);
        }
        self.closures = vec![None; closures];
        self.tagged = vec![None; tagged];
        self.tasks.reserve(tasks);
        for _ in 0..tasks {
            let task = self.core.ended_task(0, false);
            self.tasks.push(task);
        }
        for _ in 0..actors {
            let actor = self.core.empty_actor(0);
            self.actors.push(actor);
        }
        Ok(())
    }

    fn contents(&mut self) -> Result<(), StateError> {
        // What can't be changed later comes first: functions, which need the variables' shells alone, then tagged
        // values, from the inside out.
        for i in 0..self.closures.len() {
            let closure = self.closure()?;
            self.closures[i] = Some(closure);
        }
        for _ in 0..self.tagged.len() {
            let at = self.input.index(self.tagged.len())?;
            let name = self.name()?;
            let value = self.value()?;
            if self.tagged[at].is_some() {
                return Err(self.input.damaged("a tagged value"));
            }
            self.tagged[at] = Some(Value::Shared(Shared::tagged(name, value)));
        }
        for i in 0..self.cells.len() {
            let value = self.variable()?;
            self.cells[i].0.replace(value);
        }
        for i in 0..self.arrays.len() {
            self.array(i)?;
        }
        for i in 0..self.records.len() {
            self.record(i)?;
        }
        for i in 0..self.tasks.len() {
            self.task(i)?;
        }
        for i in 0..self.actors.len() {
            self.actor(i)?;
        }
        Ok(())
    }

    /// The variables of the top level. Its functions can't be assigned: they must be what they are.
    fn globals(&mut self, values: Vec<Value>) -> Result<(), StateError> {
        if values.len() != self.core.globals.len() {
            return Err(self.input.damaged("the number of variables"));
        }
        for entry in &self.core.program.entries {
            let function = values.get(entry.global as usize);
            let own =
                matches!(function, Some(Value::Task(task)) if task.proto.fixed && task.proto.at == entry.at);
            if !own {
                return Err(self.input.damaged("a function of the top level"));
            }
        }
        self.core.globals = values;
        Ok(())
    }

    fn name(&mut self) -> Result<Rc<str>, StateError> {
        let at = self.input.index(self.names.len())?;
        Ok(self.names[at].clone())
    }

    fn variable(&mut self) -> Result<Value, StateError> {
        match self.input.byte()? {
            kind::UNBOUND => Ok(Value::Unbound),
            other => self.value_of(other),
        }
    }

    fn value(&mut self) -> Result<Value, StateError> {
        let kind = self.input.byte()?;
        self.value_of(kind)
    }

    fn value_of(&mut self, kind: u8) -> Result<Value, StateError> {
        let shared = |list: &[Rc<Shared>], at: usize| Value::Shared(list[at].clone());
        Ok(match kind {
            kind::NIL => Value::Nothing,
            kind::FALSE => Value::Bool(false),
            kind::TRUE => Value::Bool(true),
            kind::INT => Value::Int(self.input.signed()?),
            kind::FLOAT => {
                let bytes = self.input.take(8)?;
                Value::Float(f64::from_bits(u64::from_le_bytes(bytes.try_into().unwrap_or_default())))
            }
            kind::SHORT => match Value::text_if_short(self.input.text()?) {
                Some(short) => short,
                None => return Err(self.input.damaged("a short text")),
            },
            kind::TEXT => {
                let at = self.input.index(self.texts.len())?;
                self.texts[at].clone()
            }
            kind::BUILTIN => {
                let name = self.name()?;
                let found = library::named(&name, Realm::Program);
                found.ok_or_else(|| self.input.damaged("a builtin's name"))?
            }
            kind::HOST => {
                let name = self.name()?;
                let at = self.core.exact.hosts.iter().position(|host| host.name == name);
                let at = at.and_then(|at| u16::try_from(at).ok());
                let missing = || StateError::Missing { name: strict::cut(&name).to_owned() };
                strict::host_function(at.ok_or_else(missing)?)
            }
            kind::TOP => self.top()?,
            kind::CLOSURE => {
                let at = self.input.index(self.closures.len())?;
                self.closures[at].clone().ok_or_else(|| self.input.damaged("a function"))?
            }
            kind::ARRAY => shared(&self.arrays, self.input.index(self.arrays.len())?),
            kind::RECORD => shared(&self.records, self.input.index(self.records.len())?),
            kind::TAGGED => {
                let at = self.input.index(self.tagged.len())?;
                self.tagged[at].clone().ok_or_else(|| self.input.damaged("a tagged value"))?
            }
            kind::TAG => {
                let name = self.name()?;
                let tag = self.tags.entry(name.clone());
                tag.or_insert_with(|| Value::Shared(Shared::tag(name))).clone()
            }
            kind::TASK => shared(&self.tasks, self.input.index(self.tasks.len())?),
            kind::ACTOR => shared(&self.actors, self.input.index(self.actors.len())?),
            _ => return Err(self.input.damaged("a value")),
        })
    }

    /// A function of the top level, by its number.
    fn top(&mut self) -> Result<Value, StateError> {
        let index = self.input.small()?;
        if let Some(value) = self.tops.get(&index) {
            return Ok(value.clone());
        }
        let program = self.core.program.clone();
        let proto = program.protos.get(index as usize).filter(|proto| proto.fixed && index != program.top);
        let proto = proto.ok_or_else(|| self.input.damaged("a function of the top level"))?;
        let value = Value::Task(Rc::new(Closure::counted(proto.clone(), Box::default(), 0)));
        self.tops.insert(index, value.clone());
        Ok(value)
    }

    fn closure(&mut self) -> Result<Value, StateError> {
        let index = self.input.small()?;
        let program = self.core.program.clone();
        let proto = program.protos.get(index as usize).filter(|proto| !proto.fixed && index != program.top);
        let proto = proto.ok_or_else(|| self.input.damaged("a function"))?;
        let count = self.input.count()?;
        if count != proto.captures.len() {
            return Err(self.input.damaged("a function's variables"));
        }
        let bytes = sizes::CLOSURE + sizes::SLOT * count;
        self.spend(bytes)?;
        let mut captured = Vec::with_capacity(count);
        for _ in 0..count {
            let at = self.input.index(self.cells.len())?;
            captured.push(Value::Cell(self.cells[at].clone()));
        }
        Ok(Value::Task(Rc::new(Closure::counted(proto.clone(), captured.into(), bytes))))
    }

    /// What an array or a record has room for, and holds.
    fn sizes(&mut self, each: usize) -> Result<(usize, usize), StateError> {
        let capacity = self.input.number()?;
        let count = self.input.count()?;
        let capacity = usize::try_from(capacity).ok().filter(|capacity| *capacity >= count);
        let capacity = capacity.ok_or_else(|| self.input.damaged("a capacity"))?;
        self.spend(capacity.saturating_mul(each))?;
        Ok((capacity, count))
    }

    fn array(&mut self, at: usize) -> Result<(), StateError> {
        let (capacity, count) = self.sizes(sizes::SLOT)?;
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(self.value()?);
        }
        let array = Value::Shared(self.arrays[at].clone());
        if let Some(array) = array.as_array() {
            array.count_to(capacity);
            *array.items_mut() = items;
        }
        Ok(())
    }

    fn record(&mut self, at: usize) -> Result<(), StateError> {
        let (capacity, count) = self.sizes(sizes::ENTRY)?;
        let record = Value::Shared(self.records[at].clone());
        let Some(table) = record.as_table() else { return Ok(()) };
        table.count_to(capacity);
        for _ in 0..count {
            let key = self.value()?;
            let key = Key::of(&key).ok_or_else(|| self.input.damaged("a key"))?;
            let value = self.value()?;
            if table.entries_mut().insert(key, value).is_some() {
                return Err(self.input.damaged("a key that stands there twice"));
            }
        }
        Ok(())
    }

    fn task(&mut self, at: usize) -> Result<(), StateError> {
        let number = self.input.small()?;
        let joined = self.input.bool()?;
        let end = match self.input.byte()? {
            0 => Gone::Never,
            1 => Gone::With(self.value()?),
            2 => Gone::Failed(self.error()?),
            _ => return Err(self.input.damaged("a task")),
        };
        let task = self.tasks[at].clone();
        self.core.fill_task(&task, (number, joined), end);
        Ok(())
    }

    fn actor(&mut self, at: usize) -> Result<(), StateError> {
        let shared = self.actors[at].clone();
        match self.input.byte()? {
            0 => {
                let name = self.name()?;
                if !(1..=64).contains(&name.len()) || name.chars().any(char::is_control) {
                    return Err(self.input.damaged("a sandbox's name"));
                }
                self.core.lose_sandbox(&shared, &name);
            }
            1 => {
                let number = self.input.small()?;
                let handler = self.value()?;
                let state = self.value()?;
                let count = self.input.count()?;
                let mut mail = Vec::new();
                for _ in 0..count {
                    let tag = self.name()?;
                    let parts = self.input.count()?;
                    let mut values = Vec::with_capacity(parts);
                    for _ in 0..parts {
                        values.push(self.value()?);
                    }
                    mail.push(Mail { tag, values });
                }
                let end = if self.input.bool()? { Some(self.error()?) } else { None };
                let handles = matches!(&handler, Value::Task(task) if task.proto.params.len() == 2);
                if !handles && end.is_none() {
                    return Err(self.input.damaged("an actor's function"));
                }
                self.core.fill_actor(&shared, number, (handler, state), mail, end);
            }
            _ => return Err(self.input.damaged("an actor")),
        }
        Ok(())
    }

    fn error(&mut self) -> Result<Raised, StateError> {
        let message = strict::cut(self.input.text()?).to_owned();
        let denied = self.input.bool()?;
        let place = self.input.small()?.checked_sub(1).map(|at| (0, at));
        let origin = match self.input.byte()? {
            0 => None,
            form @ (1 | 2) => {
                let kind = self.name()?;
                let elsewhere = if form == 2 {
                    let name = self.name()?;
                    let line = self.input.signed()?;
                    let actor = self.input.small()?.checked_sub(1);
                    Some(Elsewhere { name, line, actor })
                } else {
                    None
                };
                Some(Box::new(Origin { kind, elsewhere }))
            }
            _ => return Err(self.input.damaged("an error")),
        };
        Ok(Raised { message, place, denied, stack: Vec::new(), origin })
    }
}
