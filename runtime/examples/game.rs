//! A game that loads mods and calls each on every frame. A mod computes; what it wants done it returns as a
//! description, and the game decides. One host function is registered, deliberately: `noise`, which only computes too.
//!
//! `cargo run -p runtime --example game`

#![expect(clippy::print_stdout, reason = "an example talks to the terminal")]

use runtime::partition::boundary::Data;
use runtime::partition::sandbox::{Failure, Limits};
use runtime::scua::Mod;

const PATROL: &str = "
-- walks to and fro, and remembers where it is
fn handler(state, msg)
  match msg
    Frame([world]) -> do
      let x = (state.x + 1) % 4
      reply({ kind = \"move\", who = state.name, x = x, y = noise(world.tick, x) })
      return { name = state.name, x = x }
    end
  end
end
";

const GREEDY: &str = "
fn handler(state, msg)
  match msg
    Frame([world]) if world.tick < 2 -> reply({ kind = \"erase_disk\" })
    _ -> while true do end
  end
  return state
end
";

#[derive(serde::Serialize)]
struct World {
    tick: i64,
    players: Vec<&'static str>,
}

#[derive(serde::Deserialize)]
struct Move {
    who: String,
    x: i64,
    y: i64,
}

fn load(name: &str, source: &str, state: &Data) -> Result<Mod, Failure> {
    let mut one =
        Mod::new(Limits { fuel: 20_000, ..Limits::frame(name) }).function("noise", 2, (20, 0), |args| {
            match args {
                [Data::Int(a), Data::Int(b)] => Ok(Data::Int((a * 31 + b * 17) % 5)),
                _ => Err("noise takes two ints".to_owned()),
            }
        });
    one.load(source, state)?;
    Ok(one)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let guard = Data::Record(vec![("name".into(), "guard".into()), ("x".into(), Data::Int(0))]);
    let mut mods =
        vec![("patrol", load("patrol", PATROL, &guard)?), ("greedy", load("greedy", GREEDY, &Data::Nil)?)];
    for tick in 0..4 {
        let world = Data::from_serde(&World { tick, players: vec!["ann", "bob"] })?;
        let mut failed = Vec::new();
        for (name, one) in &mut mods {
            match one.ask("Frame", std::slice::from_ref(&world)) {
                Ok(Some(action)) => match action.field("kind") {
                    Some(Data::Text(kind)) if &**kind == "move" => {
                        let step: Move = action.to_serde()?;
                        println!("{tick}: {} goes to {},{}", step.who, step.x, step.y);
                    }
                    kind => println!("{tick}: {name} wants {kind:?}: ignored"),
                },
                Ok(None) => println!("{tick}: {name} says nothing"),
                Err(failure) => {
                    println!("{tick}: {name} is out of the game ({}): {failure}", failure.kind);
                    failed.push(*name);
                }
            }
        }
        mods.retain(|(name, _)| !failed.contains(name));
    }
    Ok(())
}
