//! Any data across the boundary: what a sandbox gives back is what it was given, and nothing that isn't data comes out.
#![no_main]

use libfuzzer_sys::arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use runtime::partition::boundary::Data;
use runtime::partition::sandbox::Limits;
use runtime::scua::Mod;

#[derive(Debug)]
struct Any(Data);

const TAGS: [&str; 4] = ["Ok", "Some", "A", "Zz9"];

fn data(u: &mut Unstructured<'_>, depth: usize) -> Result<Data> {
    let kinds = if depth > 70 { 5 } else { 9 };
    Ok(match u.int_in_range(0..=kinds - 1)? {
        0 => Data::Nil,
        1 => Data::Bool(u.arbitrary()?),
        2 => Data::Int(u.arbitrary()?),
        3 => Data::Float(u.arbitrary()?),
        4 => Data::from(<&str>::arbitrary(u)?),
        5 => {
            let mut all = Vec::new();
            while u.arbitrary()? {
                all.push(data(u, depth + 1)?);
            }
            Data::Array(all)
        }
        6 => {
            let mut fields: Vec<(std::rc::Rc<str>, Data)> = Vec::new();
            while u.arbitrary()? {
                let name = <&str>::arbitrary(u)?;
                if fields.iter().all(|(other, _)| **other != *name) {
                    fields.push((name.into(), data(u, depth + 1)?));
                }
            }
            Data::Record(fields)
        }
        7 => Data::Tagged((*u.choose(&TAGS)?).into(), None),
        _ => Data::Tagged((*u.choose(&TAGS)?).into(), Some(Box::new(data(u, depth + 1)?))),
    })
}

impl<'a> Arbitrary<'a> for Any {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        data(u, 0).map(Self)
    }
}

fn same(a: &Data, b: &Data) -> bool {
    match (a, b) {
        (Data::Float(x), Data::Float(y)) => x.to_bits() == y.to_bits(),
        (Data::Array(p), Data::Array(q)) => p.len() == q.len() && p.iter().zip(q).all(|(x, y)| same(x, y)),
        (Data::Record(p), Data::Record(q)) => {
            p.len() == q.len() && p.iter().zip(q).all(|((k, x), (l, y))| k == l && same(x, y))
        }
        (Data::Tagged(s, Some(x)), Data::Tagged(t, Some(y))) => s == t && same(x, y),
        _ => a == b,
    }
}

const ECHO: &str = "fn main(v) return v end";
const WORK: &str = "import json; import record; import array
fn main(v)
  let all = [str(v), v == v, try(fn() return json.encode(v) end), try(fn() return record.copy(v) end)]
  match v
    [a, ..rest] -> array.push(all, rest)
    { kind = k } -> array.push(all, k)
    Ok(x) -> array.push(all, x)
    _ -> array.push(all, `{v}`)
  end
  for k, x in all do all[0] = [k, x] end
  return all
end";

fuzz_target!(|any: Any| {
    let limits = Limits { fuel: 100_000, memory: 1 << 20, ..Limits::frame("fuzz") };
    match Mod::new(limits.clone()).run(ECHO, &any.0) {
        Ok(back) => assert!(same(&any.0, &back), "what comes back is what went in"),
        Err(failure) => assert!(["out_of_memory", "out_of_fuel", "faulted"].contains(&failure.kind)),
    }
    let once = || Mod::new(limits.clone()).run(WORK, &any.0).map_err(|e| (e.kind, e.line, e.message));
    // NaN isn't equal to itself: compared as it is printed.
    assert_eq!(format!("{:?}", once()), format!("{:?}", once()));
});
