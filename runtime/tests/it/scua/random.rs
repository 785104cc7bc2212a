//! A thousand random programs: the same output, errors, exit status, fuel and bytes each time, on another thread too, whose
//! records are hashed with another seed, and with nothing that was made before it.
//!
//! The language leaves a scheduler nothing to choose: ready tasks and actors with messages stand in one queue and what
//! becomes ready goes to its end, deadlines that are equal fire in order of their creation, and a sandbox's turn is one step
//! (its reference, sections 7 and 10.2). So no seed permutes the queue. What a host does choose is when it looks at a
//! program and what else runs then on the same thread; those are drawn here, and no program can tell.

use super::Dice;
use policies::audit::Entry;
use policies::ceiling::Ceiling;
use runtime::partition::boundary::Data;
use runtime::partition::host::{Host, Memory};
use runtime::scua::program::Grants;
use runtime::scua::{Live, Script};
use std::cell::RefCell;
use std::rc::Rc;

/// Writes programs that compile and do much: loops, records, closures, tasks, actors and sandboxes.
struct Writer {
    dice: Dice,
    out: String,
    loops: usize,
}

impl Writer {
    fn pick(&mut self, of: &[&str]) -> String {
        of[self.dice.roll(of.len())].to_owned()
    }

    fn expr(&mut self, depth: usize) -> String {
        if depth == 0 {
            return match self.dice.roll(7) {
                0 => self.dice.roll(100).to_string(),
                1 => format!("{}.5", self.dice.roll(9)),
                2 => format!("\"text {}\"", self.dice.roll(9)),
                3 => self.pick(&["nil", "true", "false", "Stop", "n", "n", "list", "rec"]),
                _ => self.pick(&["a", "b", "c", "a", "b"]),
            };
        }
        let (x, y) = (self.expr(depth - 1), self.expr(depth - 1));
        match self.dice.roll(20) {
            0..=3 => format!("({x} {} {y})", self.pick(&["+", "-", "*", "/", "//", "%"])),
            4 | 5 => format!("({x} {} {y})", self.pick(&["==", "!=", "and", "or"])),
            6 => format!("str({x} == {y})"),
            7 => format!("[{x}, {y}]"),
            8 => format!("{{ k = {x}, [str({y})] = 2 }}"),
            9 => format!("Some({x})"),
            10 => format!("`{{{x}}} and {{{y}}}`"),
            11 => format!("len(str({x}))"),
            12 => format!("try(fn() return {x} end)"),
            13 => format!("work({x}, 2)"),
            14 => format!("array.map([{x}, {y}], fn(v) return [v, n] end)"),
            15 => format!("array.sort([3, len(str({x})), 1], fn(p, q) return p < q end)"),
            16 => format!("record.keys({{ z = {x}, y = {y} }})"),
            17 => format!("json.encode(try(fn() return json.encode({x}) end) == {y})"),
            18 => format!("payload(sandbox.run(\"fn main(v) return [v, v] end\", str({x})))"),
            _ => format!(
                "match {x}\n Some(v) -> v\n [v, ..w] -> w\n {{ k = v }} -> v\n v if v == {y} -> 1\n v -> v\n end"
            ),
        }
    }

    fn stmt(&mut self, depth: usize) {
        let value = self.expr(2);
        let line = match self.dice.roll(14) {
            0..=2 => format!("{} = {value}", self.pick(&["a", "b", "c"])),
            3 => format!("array.push(list, {value})"),
            4 => format!("rec[str({value})] = n"),
            5 => format!("print({value})"),
            6 => format!("tell keeper.Put({value})"),
            7 => "n = n + (ask keeper.Count() timeout 1s)".to_owned(),
            8 => format!("print(join(spawn work({value}, 1)))"),
            9 => format!("spawn do pause(); array.push(list, {value}) end"),
            10 => "for k, v in rec do n = n + 1; if n % 3 == 0 then record.remove(rec, k) end end".to_owned(),
            11 => format!("rec.me = [rec, list, {value}]"),
            _ if depth > 0 => {
                self.loops += 1;
                let head = format!("for i{} = 1, {} do", self.loops, 1 + self.dice.roll(6));
                self.out.push_str(&head);
                self.out.push('\n');
                for _ in 0..=self.dice.roll(3) {
                    self.stmt(depth - 1);
                }
                "end".to_owned()
            }
            _ => format!("try(fn() {} = {value} end)", self.pick(&["a", "b", "c"])),
        };
        // Most of what is thrown together faults somewhere.
        if line == "end" || self.dice.roll(40) == 0 {
            self.out.push_str(&line);
        } else {
            self.out.push_str(&format!("try(fn() {line} end)"));
        }
        self.out.push('\n');
    }
}

fn program(seed: u64) -> String {
    let mut writer = Writer { dice: Dice(seed), out: String::new(), loops: 0 };
    writer.out.push_str(
        "import array; import record; import json; import sandbox
let a = 1; let b = 2.5; let c = \"see\"; let n = 0; let list = []; let rec = { first = 1 }
fn work(v, times) for i = 1, times do pause() end; return [v, times] end
let keeper = actor(fn(s, m)
 match m
  Put([v]) -> return s + 1
  Count([]) -> do reply(s); return s end
 end end, 0)
",
    );
    for _ in 0..4 + writer.dice.roll(10) {
        writer.stmt(2);
    }
    writer.out.push_str("print(n, len(list), len(rec), str(a), str(b), str(c))\n");
    writer.out
}

type Seen = (Vec<String>, Vec<String>, i32, u64, u64);

fn script(source: &str) -> Script {
    let granted = Ceiling::parse("stdout,sandbox_run").expect("a ceiling");
    let grants = Grants { granted, fuel: Some(200_000), memory: Some(2 << 20), ..Grants::nothing() };
    Script::new("r.scua", source).grants(grants)
}

fn seen(source: &str) -> Seen {
    let host = Rc::new(RefCell::new(Memory::default()));
    seen_by(script(source), source, host.clone(), Box::new(host))
}

fn seen_by(script: Script, source: &str, host: Rc<RefCell<Memory>>, outside: Box<dyn Host>) -> Seen {
    let started = script.start(outside);
    let live = started.unwrap_or_else(|e| panic!("{e}\n{source}"));
    let bytes = live.bytes();
    let outcome = live.finish();
    let host = host.borrow();
    let mut errors = host.errors.clone();
    errors.extend(outcome.errors.iter().map(|e| e.text.clone()));
    (host.output.clone(), errors, outcome.end.exit, outcome.end.fuel, bytes)
}

#[test]
fn a_thousand_random_programs_are_the_same_each_time() {
    let programs: Vec<String> = (0..1000).map(program).collect();
    let here: Vec<Seen> = programs.iter().map(|source| seen(source)).collect();
    let again = programs.clone();
    let there =
        std::thread::spawn(move || again.iter().rev().map(|source| seen(source)).collect::<Vec<Seen>>());
    let mut there = there.join().expect("it runs");
    there.reverse();
    for (source, (a, b)) in programs.iter().zip(here.iter().zip(&there)) {
        assert_eq!(a, b, "{source}");
    }
    // They do something: most end well, some fault, and some meet a limit.
    let well = here.iter().filter(|seen| seen.2 == 0).count();
    assert!((100..1000).contains(&well), "{well} of 1000 end well");
}

/// A host that runs something else whenever it is told of the end of a slice.
struct Busy {
    memory: Rc<RefCell<Memory>>,
    dice: Dice,
    others: Vec<Live>,
    turns: Rc<RefCell<usize>>,
}

impl Host for Busy {
    fn print(&mut self, text: &str) {
        self.memory.print(text);
    }
    fn eprint(&mut self, text: &str) {
        self.memory.eprint(text);
    }
    fn audit(&mut self, entry: Entry) {
        self.memory.audit(entry);
    }
    fn tick(&mut self) {
        *self.turns.borrow_mut() += 1;
        if self.dice.roll(8) == 0 {
            let which = self.dice.roll(self.others.len());
            let times = Data::Int(1 + self.dice.roll(3) as i64);
            self.others[which].call("turn", &[times]).expect("another program goes on");
        }
    }
}

/// Programs that stay and are called in between: with records, cycles, tasks and sandboxes of their own.
const OTHERS: [&str; 2] = [
    "let all = {}
fn turn(n)
  for i = 1, n do let r = { i = i }; r.me = r; all[`k{i}`] = [all, r] end
  let t = spawn do pause(); return len(all) end
  return join(t)
end",
    "import sandbox
fn turn(n) return payload(sandbox.run(\"fn main(n) let a = []; for i = 1, n do a = [a, i] end; return n end\", n)) end",
];

#[test]
fn no_program_can_tell_when_the_host_looks_or_what_it_does_meanwhile() {
    let turns = Rc::new(RefCell::new(0));
    for seed in 0..150 {
        let source = program(seed);
        let alone = seen(&source);
        for round in 0..2 {
            let mut dice = Dice(seed * 2 + round);
            let slice = [1, 7, 50, 333, 2000][dice.roll(5)];
            let others = OTHERS.map(|text| {
                let granted = Ceiling::parse("sandbox_run").expect("a ceiling");
                let script = Script::new("o.scua", text).grants(Grants { granted, ..Grants::nothing() });
                script.start(Box::new(Memory::default())).expect("it compiles")
            });
            let memory = Rc::new(RefCell::new(Memory::default()));
            let busy = Busy { memory: memory.clone(), dice, others: others.into(), turns: turns.clone() };
            let among = seen_by(script(&source).look_every(slice), &source, memory, Box::new(busy));
            assert_eq!(alone, among, "looks every {slice}: {source}");
        }
    }
    assert!(*turns.borrow() > 1000, "{} looks", turns.borrow());
}

/// Programs that share a thread, each called a little at a time, in an order that is drawn: each as if it were alone.
#[test]
fn programs_whose_calls_are_interleaved_are_as_if_alone() {
    let text = "let n = 0
let sum = actor(fn(s, m) match m
  Add([x]) -> return s + x
  Get([]) -> do reply(s); return s end
 end end, 0)
fn step(x) n = n + 1; tell sum.Add(x * n); spawn do pause(); n = n + x end; return n end
fn end_of() return [n, ask sum.Get()] end";
    let start = || script(text).start(Box::new(Memory::default())).expect("it compiles");
    let finish = |mut live: Live| {
        let answer = live.call("end_of", &[]).expect("it answers");
        (answer, live.fuel_used(), live.bytes())
    };
    let inputs = |program: i64| (0..30).map(move |i| program * 100 + i % 7);
    let alone: Vec<_> = (0..5)
        .map(|program| {
            let mut live = start();
            inputs(program).for_each(|x| drop(live.call("step", &[Data::Int(x)]).expect("it runs")));
            finish(live)
        })
        .collect();
    for seed in 0..10 {
        let mut dice = Dice(seed);
        let mut all: Vec<_> = (0..5).map(|program| (start(), inputs(program).peekable())).collect();
        while all.iter_mut().any(|(_, left)| left.peek().is_some()) {
            let (live, left) = &mut all[dice.roll(5)];
            if let Some(x) = left.next() {
                live.call("step", &[Data::Int(x)]).expect("it runs");
            }
        }
        let among: Vec<_> = all.into_iter().map(|(live, _)| finish(live)).collect();
        assert_eq!(alone, among, "seed {seed}");
    }
}
