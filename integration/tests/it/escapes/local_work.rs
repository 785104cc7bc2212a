//! 'Network off' breaks no local work: pairs, event loops, threads, shared memory, children.

use crate::{
    given::{Given, outside},
    host::{Who, skip},
};
use policies::report::Verdict;
use std::path::Path;

#[test]
fn native_programs_work() {
    for who in Who::all() {
        let ended = Given::usual(*who).run(&["local"]).expect(Verdict::Ok);
        let twin = outside(*who, &["local"]);
        for act in ["stream", "seqpacket", "stream-cloexec", "poll", "threads", "fork", "shm", "signals"] {
            ended.says(act, "ok");
            twin.says(act, "ok");
        }
        assert!(ended.report().audit.is_empty());
    }
}

const PYTHON: &str = r#"
import sys, asyncio, multiprocessing, threading, socket, tempfile, concurrent.futures
async def ping():
    reader, writer = await asyncio.open_connection(sock=a)
    writer.write(b"ping\n"); await writer.drain()
    return await asyncio.wait_for(reader.readline(), 5)
async def pong():
    reader, writer = await asyncio.open_connection(sock=b)
    writer.write(await reader.readline()); await writer.drain()
async def main():
    answer, _ = await asyncio.gather(ping(), pong())
    loop = asyncio.get_running_loop()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = await asyncio.gather(*[loop.run_in_executor(pool, lambda n=n: n * n) for n in range(8)])
    return answer, sum(answers)
a, b = socket.socketpair()
print("asyncio", asyncio.run(main()))
def work(value, lock, queue):
    with lock: value.value += 1; queue.put(value.value)
context = multiprocessing.get_context("fork")
value, lock, queue = context.Value("i", 0), context.Lock(), context.Queue()
children = [context.Process(target=work, args=(value, lock, queue)) for _ in range(4)]
[child.start() for child in children]; got = sorted(queue.get(timeout=10) for _ in children); [child.join() for child in children]
print("multiprocessing", value.value, got)
from multiprocessing import shared_memory
if "spawn" in sys.argv: memory = shared_memory.SharedMemory(create=True, size=1 << 16); memory.buf[0] = 7; print("shared", memory.buf[0]); memory.close(); memory.unlink()
with context.Pool(3) as pool: print("pool", pool.map(abs, [-1, -2, -3]))
threads = [threading.Thread(target=lambda: None) for _ in range(20)]
[t.start() for t in threads]; [t.join() for t in threads]; print("threads", len(threads))
with tempfile.NamedTemporaryFile() as file: file.write(b"x"); print("temporary", "ok")
"#;

#[test]
fn python_works_without_a_network() {
    let Some(python) = system_program("/usr/bin/python3") else { return };
    for who in Who::all() {
        let ended = Given::policy(*who, "python").run_program(&[python, "-c", PYTHON]).expect(Verdict::Ok);
        ended.says("asyncio", r"(b'ping\n', 140)");
        ended.says("multiprocessing", "4 [1, 2, 3, 4]");
        ended.says("pool", "[1, 2, 3]");
        ended.says("threads", "20");
        ended.says("temporary", "ok");
    }
}

/// Python's SharedMemory starts a tracker, which is a program: it needs `exec`.
#[test]
fn pythons_shared_memory_works_where_python_may_be_executed() {
    let Some(python) = system_program("/usr/bin/python3") else { return };
    for who in Who::all() {
        let given =
            Given::policy(*who, "python").flag("--cap-set", format!("stdout,time,random,exec={python}"));
        let ended = given.run_program(&[python, "-c", PYTHON, "spawn"]).expect(Verdict::Ok);
        ended.says("shared", "7");
    }
}

const NODE: &str = r#"
const { spawnSync } = require("child_process");
const { Worker } = require("worker_threads");
const ran = spawnSync("/bin/echo", ["spawned"]);
console.log("spawn", ran.error ? ran.error.code : ran.stdout.toString().trim());
const worker = new Worker("require('worker_threads').parentPort.postMessage(42)", { eval: true });
worker.on("message", (n) => console.log("worker", n));
require("fs").promises.writeFile("file", "x").then(() => console.log("file", "ok"));
setTimeout(() => console.log("timer", "ok"), 5);
"#;

#[test]
fn node_works_without_a_network_and_spawns_where_exec_is_granted() {
    let Some(node) = system_program("/usr/bin/node") else { return };
    for who in Who::all() {
        let given = Given::policy(*who, "node");
        let ended = given.run_program(&[node, "-e", NODE]).expect(Verdict::Ok);
        assert!(["EPERM", "EACCES"].contains(&ended.answer("spawn")), "{ended:?}");
        let granted = given.flag("--cap-set", "stdout,stdin,time,random,exec=/bin/echo");
        let ended = granted.run_program(&[node, "-e", NODE]).expect(Verdict::Ok);
        ended.says("spawn", "spawned");
        ended.says("worker", "42");
        ended.says("file", "ok");
        ended.says("timer", "ok");
    }
}

fn system_program(path: &'static str) -> Option<&'static str> {
    let there = Path::new(path).exists();
    if !there {
        skip(&format!("{path} is not installed"));
    }
    there.then_some(path)
}
