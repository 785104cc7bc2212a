//! What is tried for each capability, by native code and in the language, and what each wall has to say.
//!
//! Invariant: matched without `_`, so that a new capability without its rows doesn't compile.
//! `{}` is the test's folder, which holds `a.txt`, `{port}` a free port, `{host}` a server's address and port; the variables `MATRIX_ENV` and `MATRIX_SECRET` are set. All that can be
//! reached is the word `reached`.

use policies::{capability::Capability, layer::Layer};

/// The rows of one capability.
pub(super) struct Rows {
    pub(super) native: Native,
    pub(super) language: Language,
    pub(super) pure: Pure,
}

/// What native code in the runtime's place tries.
pub(super) enum Native {
    /// The jail holds it.
    Held {
        /// The narrow ceiling of the first run.
        without: &'static str,
        refused: &'static [Refused],
        twin: Twin,
    },
    /// No kernel wall holds it: the act succeeds under the narrowest ceiling.
    LanguageOnly { act: &'static str },
}

/// An act, its answer, and the entry that it leaves if its layer can tell: layer and target.
pub(super) struct Refused(
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) Option<(Layer, &'static str)>,
);

/// The same with the grant.
pub(super) enum Twin {
    /// Under this ceiling each act has this answer.
    Works(&'static str, &'static [(&'static str, &'static str)]),
    /// There is no way for the runtime yet by which the grant could be used: only what is refused can be shown.
    NoWay,
}

/// What a program tries. Its first line is the `require` that declares it.
pub(super) enum Language {
    /// It prints `reached` if it got it.
    Built(Built),
    /// The builtins aren't there: with everything granted, the program ends with this. What the gate says of them is tested
    /// as far as they ask it.
    NotBuilt { program: &'static str, says: &'static str, denied: Option<&'static str> },
}

pub(super) struct Built {
    pub(super) program: &'static str,
    /// Granted in all runs, because the program needs it on the way.
    pub(super) beside: &'static str,
    /// What the last run adds.
    pub(super) grant: &'static str,
    /// The start of the message.
    pub(super) denied: &'static str,
    /// The check in the entry.
    pub(super) check: &'static str,
}

/// What the pure profile does to the program.
pub(super) enum Pure {
    /// The builtin is a stub: its name, and why.
    Stub(&'static str, &'static str),
    /// It stays, and why that is right.
    Stays(&'static str),
}

const NO_SOCKET: Refused = Refused("call socket-inet", "EPERM", Some((Layer::Filter, "socket")));
const NO_FILE: Refused = Refused("system-open {}/a.txt", "EPERM", Some((Layer::Filter, "openat")));

/// Native code without a socket, where the grant's own way isn't built.
const NO_NETWORK: Native = Native::Held { without: "stdout", refused: &[NO_SOCKET], twin: Twin::NoWay };

/// A name that isn't bound, or is bound to a stub.
const fn not_built(program: &'static str, says: &'static str) -> Language {
    Language::NotBuilt { program, says, denied: None }
}

const STUB: &str = "this family of builtins isn't built into this runtime yet";

/// The rows of a capability.
pub(super) fn rows(capability: Capability) -> Rows {
    match capability {
        Capability::Stdout => Rows {
            native: Native::Held {
                without: "time",
                refused: &[Refused("say reached", "sent", Some((Layer::Broker, "stdout")))],
                twin: Twin::Works("stdout", &[("say reached", "sent")]),
            },
            language: Language::Built(Built {
                program: "require stdout\nprint(\"reached\")",
                beside: "time",
                grant: "stdout",
                denied: "Capability not granted: stdout",
                check: "stdout",
            }),
            pure: Pure::Stays("output is no part of the machine"),
        },
        Capability::Stdin => Rows {
            native: Native::Held {
                without: "stdout",
                // Empty: an end of input is no act that anybody could note.
                refused: &[Refused("input", "", None)],
                twin: Twin::Works("stdin", &[("input", "reached")]),
            },
            language: Language::Built(Built {
                program: "require stdin\nprint(read_line())",
                beside: "stdout",
                grant: "stdin",
                denied: "Capability not granted: stdin",
                check: "stdin",
            }),
            pure: Pure::Stays("input is no part of the machine"),
        },
        Capability::Time => Rows {
            native: Native::LanguageOnly { act: "clock" },
            language: Language::Built(Built {
                program: "require time\nwhen now() > 0\n    print(\"reached\")",
                beside: "stdout",
                grant: "time",
                denied: "Capability not granted: time",
                check: "time",
            }),
            pure: Pure::Stays("a clock tells nothing of this machine"),
        },
        Capability::Random => Rows {
            native: Native::LanguageOnly { act: "random" },
            language: Language::Built(Built {
                program: "require random\nwhen random() < 1\n    print(\"reached\")",
                beside: "stdout",
                grant: "random",
                denied: "Capability not granted: random",
                check: "random",
            }),
            pure: Pure::Stays("random numbers tell nothing of this machine"),
        },
        Capability::Llm => Rows {
            native: Native::Held {
                without: "stdout",
                refused: &[NO_SOCKET, Refused("prompt x", "Ceiling", Some((Layer::Broker, "")))],
                twin: Twin::Works("stdout,llm", &[("prompt x", "offline")]),
            },
            language: Language::Built(Built {
                program: "require llm\nlet x be reason about \"x\"\nprint(\"reached\")",
                beside: "stdout",
                grant: "llm",
                denied: "Capability not granted: llm",
                check: "llm",
            }),
            pure: Pure::Stays("the page has it so: a model is not this machine"),
        },
        Capability::Judge => Rows {
            native: Native::Held {
                without: "stdout",
                refused: &[NO_SOCKET, Refused("judge x", "Ceiling", Some((Layer::Broker, "")))],
                twin: Twin::Works("stdout,judge", &[("judge x", "offline")]),
            },
            language: Language::Built(Built {
                program: "require judge\nlet x be judge_whether(1, \"is it one?\")\nprint(\"reached\")",
                beside: "stdout",
                grant: "judge",
                denied: "Capability not granted: judge",
                check: "judge",
            }),
            pure: Pure::Stays("the page has it so: a model is not this machine"),
        },
        Capability::SandboxRun => Rows {
            native: Native::Held {
                without: "stdout",
                refused: &[
                    Refused("child say reached", "Ceiling", Some((Layer::Broker, ""))),
                    Refused("call execve", "EPERM", Some((Layer::Filter, "execve"))),
                ],
                twin: Twin::Works(
                    "stdout,sandbox_run",
                    &[("child say reached", "reached; say reached -> sent")],
                ),
            },
            language: Language::Built(Built {
                program: "require sandbox_run\n\
                          let r be run_program(\"print(\\\"reached\\\")\", {\"ceiling\": \"stdout\"})\n\
                          each line in r[\"output\"]\n    print(line)\neach line in r[\"errors\"]\n    print(line)",
                beside: "stdout",
                grant: "sandbox_run",
                denied: "Capability not granted: sandbox_run",
                check: "sandbox_run",
            }),
            pure: Pure::Stays("a child is under a ceiling, and its profile never above"),
        },
        Capability::Attest => Rows {
            native: NO_NETWORK,
            language: not_built("require attest\nattest(\"x\")", STUB),
            pure: Pure::Stays("not built"),
        },
        Capability::Net => Rows {
            native: Native::Held {
                without: "stdout",
                refused: &[
                    NO_SOCKET,
                    Refused("call socket-inet6", "EPERM", Some((Layer::Filter, "socket"))),
                    Refused("call socket-unix", "EPERM", Some((Layer::Filter, "socket"))),
                    Refused("call connect", "EPERM", Some((Layer::Filter, "connect"))),
                    Refused("fetch http://{host}/", "Ceiling", Some((Layer::Broker, "{host}"))),
                    Refused("connect {host}", "Ceiling", Some((Layer::Broker, "{host}"))),
                    Refused("hear 1", "Misuse", None),
                ],
                twin: Twin::Works(
                    "stdout,net={host}",
                    &[("fetch http://{host}/", "answered"), ("connect {host}", "open")],
                ),
            },
            // The broker of the rows without a jail has no way out, which is data: what is reached is the gate's other side.
            language: Language::Built(Built {
                program: "require net(\"{host}\")\nfetch(\"http://{host}/\")\nprint(\"reached\")",
                beside: "stdout",
                grant: "net={host}",
                denied: "Capability not granted: net(\"{host}\")",
                check: "net(\"{host}\")",
            }),
            pure: Pure::Stays("the page has it so: without the machine, not without the network"),
        },
        Capability::File => Rows {
            native: Native::Held {
                without: "stdout",
                refused: &[
                    NO_FILE,
                    Refused("open {}/a.txt", "Ceiling", Some((Layer::Broker, "{}/a.txt"))),
                    Refused("write {}/b.txt", "Ceiling", Some((Layer::Broker, "{}/b.txt"))),
                ],
                twin: Twin::Works(
                    "stdout,file={}/*",
                    &[("open {}/a.txt", "reached"), ("write {}/b.txt", "done"), ("open {}/b.txt", "reached")],
                ),
            },
            language: Language::Built(Built {
                program: "require file(\"{}/*\")\nwrite_file(\"{}/c.txt\", \"reached\")\nprint(read_file(\"{}/c.txt\"))",
                beside: "stdout",
                grant: "file={}/*",
                denied: "Capability not granted: file_write(\"{}/c.txt\")",
                check: "file_write(\"{}/c.txt\")",
            }),
            pure: Pure::Stub("write_file", "this run has no filesystem"),
        },
        Capability::FileRead => Rows {
            native: Native::Held {
                without: "stdout,file.write={}/*",
                refused: &[
                    NO_FILE,
                    Refused("open {}/a.txt", "Ceiling", Some((Layer::Broker, "{}/a.txt"))),
                    Refused("look {}/a.txt", "Ceiling", Some((Layer::Broker, "{}/a.txt"))),
                    Refused("list {}/d", "Ceiling", Some((Layer::Broker, "{}/d"))),
                ],
                twin: Twin::Works(
                    "stdout,file.read={}/*",
                    &[("open {}/a.txt", "reached"), ("look {}/a.txt", "exists"), ("list {}/d", "Kernel(2)")],
                ),
            },
            language: Language::Built(Built {
                program: "require file.read(\"{}/*\")\nprint(read_file(\"{}/a.txt\"))",
                beside: "stdout,file.write={}/*",
                grant: "file.read={}/*",
                denied: "Capability not granted: file_read(\"{}/a.txt\")",
                check: "file_read(\"{}/a.txt\")",
            }),
            pure: Pure::Stub("read_file", "this run has no filesystem"),
        },
        Capability::FileWrite => Rows {
            native: Native::Held {
                without: "stdout,file.read={}/*",
                refused: &[
                    Refused("system-write {}/b.txt", "EPERM", Some((Layer::Filter, "openat"))),
                    Refused("append {}/a.txt", "Ceiling", Some((Layer::Broker, "{}/a.txt"))),
                    Refused("write {}/b.txt", "Ceiling", Some((Layer::Broker, "{}/b.txt"))),
                    Refused("folder {}/f", "Ceiling", Some((Layer::Broker, "{}/f"))),
                    Refused("remove {}/a.txt", "Ceiling", Some((Layer::Broker, "{}/a.txt"))),
                ],
                twin: Twin::Works(
                    "stdout,file.write={}/*",
                    &[
                        ("write {}/b.txt", "done"),
                        ("append {}/b.txt", "opened"),
                        ("folder {}/f", "done"),
                        ("remove {}/b.txt", "done"),
                    ],
                ),
            },
            language: Language::Built(Built {
                program: "require file.write(\"{}/*\")\nwrite_file(\"{}/c.txt\", \"x\")\ndelete_file(\"{}/c.txt\")\nprint(\"reached\")",
                beside: "stdout,file.read={}/*",
                grant: "file.write={}/*",
                denied: "Capability not granted: file_write(\"{}/c.txt\")",
                check: "file_write(\"{}/c.txt\")",
            }),
            pure: Pure::Stub("write_file", "this run has no filesystem"),
        },
        Capability::Exec => Rows {
            native: Native::Held {
                without: "stdout",
                refused: &[
                    Refused("call execve", "EPERM", Some((Layer::Filter, "execve"))),
                    Refused("call execveat", "EPERM", Some((Layer::Filter, "execveat"))),
                ],
                twin: Twin::NoWay,
            },
            language: Language::Built(Built {
                program: "require exec(\"echo\")\nprint(trim(run(\"echo\", [\"reached\"]).stdout))",
                beside: "stdout",
                grant: "exec=echo",
                denied: "Capability not granted: exec(\"echo\")",
                check: "exec(\"echo\")",
            }),
            pure: Pure::Stub("run", "this run has no child processes"),
        },
        Capability::Env => Rows {
            native: Native::Held {
                without: "stdout",
                refused: &[Refused("variable MATRIX_ENV", "absent", None)],
                twin: Twin::Works("env=MATRIX_ENV", &[("variable MATRIX_ENV", "reached")]),
            },
            language: Language::Built(Built {
                program: "require env(\"MATRIX_ENV\")\nprint(env(\"MATRIX_ENV\"))",
                beside: "stdout",
                grant: "env=MATRIX_ENV",
                denied: "env(\"MATRIX_ENV\") not permitted",
                check: "env(\"MATRIX_ENV\")",
            }),
            pure: Pure::Stays("the page has it so: names that the host has granted"),
        },
        Capability::Secret => Rows {
            native: Native::Held {
                without: "stdout,env=MATRIX_ENV,reveal",
                refused: &[Refused("variable MATRIX_SECRET", "absent", None)],
                twin: Twin::Works("secret=MATRIX_SECRET", &[("variable MATRIX_SECRET", "reached")]),
            },
            language: Language::Built(Built {
                program: "require secret(\"MATRIX_SECRET\")\nlet s be secret(\"MATRIX_SECRET\")\n\
                          when text(s) != \"reached\"\n    print(\"sealed, but reached\")",
                beside: "stdout",
                grant: "secret=MATRIX_SECRET",
                denied: "secret(\"MATRIX_SECRET\") not permitted",
                check: "secret(\"MATRIX_SECRET\")",
            }),
            pure: Pure::Stays("the page has it so: names that the host has granted"),
        },
        Capability::Reveal => Rows {
            // In the jail a secret is plain text from the start: what the kernel can hold is that it doesn't come in.
            native: Native::Held {
                without: "stdout,reveal=MATRIX_SECRET",
                refused: &[Refused("variable MATRIX_SECRET", "absent", None)],
                twin: Twin::Works(
                    "secret=MATRIX_SECRET,reveal=MATRIX_SECRET",
                    &[("variable MATRIX_SECRET", "reached")],
                ),
            },
            language: Language::Built(Built {
                program: "require reveal(\"MATRIX_SECRET\")\nrequire secret(\"MATRIX_SECRET\")\n\
                          print(reveal(secret(\"MATRIX_SECRET\")))",
                beside: "stdout,secret=MATRIX_SECRET",
                grant: "reveal=MATRIX_SECRET",
                denied: "reveal(\"MATRIX_SECRET\") not permitted",
                check: "reveal(\"MATRIX_SECRET\")",
            }),
            pure: Pure::Stays("the page has it so: names that the host has granted"),
        },
        Capability::Sign => Rows {
            native: NO_NETWORK,
            language: not_built("require sign(\"key\")\ned25519_sign(\"key\", \"x\")", STUB),
            pure: Pure::Stays("not built"),
        },
        Capability::Wallet => Rows {
            native: NO_NETWORK,
            language: not_built("require wallet(\"main\")\nhd_derive(\"main\", \"m/0\")", STUB),
            pure: Pure::Stays("not built"),
        },
        Capability::Spend => Rows {
            native: NO_NETWORK,
            language: not_built("require spend(\"usd\")\nspend(\"usd\", 1)", STUB),
            pure: Pure::Stays("not built"),
        },
        Capability::Memory => Rows {
            native: Native::Held {
                without: "stdout",
                refused: &[
                    Refused("system-open {}/.synsema/state/p.db", "EPERM", Some((Layer::Filter, "openat"))),
                    Refused(
                        "open {}/.synsema/state/p.db",
                        "Ceiling",
                        Some((Layer::Broker, "{}/.synsema/state/p.db")),
                    ),
                    Refused("notebook p", "Ceiling", Some((Layer::Broker, "p"))),
                ],
                // This run's program has no folder of its own: its notebook is in memory. The launcher's tests show the file.
                twin: Twin::NoWay,
            },
            language: Language::Built(Built {
                program: "require memory(\"p\")\nremember(\"context\", \"reached\")\nprint(recall()[0][\"content\"])",
                beside: "stdout",
                grant: "memory=p",
                denied: "Capability not granted: memory",
                check: "memory(\"p\")",
            }),
            pure: Pure::Stays("the page has it so: in memory, without a file"),
        },
        Capability::Db => Rows {
            native: Native::Held {
                without: "stdout",
                refused: &[
                    Refused("system-open {}/data.db", "EPERM", Some((Layer::Filter, "openat"))),
                    Refused("open {}/data.db", "Ceiling", Some((Layer::Broker, "{}/data.db"))),
                    Refused("database {}/a.txt", "Ceiling", Some((Layer::Broker, "{}/a.txt"))),
                    Refused("journal {}/a.txt", "Ceiling", Some((Layer::Broker, "{}/a.txt"))),
                ],
                twin: Twin::Works("db={}/a.txt", &[("database {}/a.txt", "reached")]),
            },
            language: Language::Built(Built {
                program: "require db(\":memory:\")\ndb_open(\":memory:\")\nprint(sql(\"select 'reached' as w\")[0][\"w\"])",
                beside: "stdout",
                grant: "db=:memory:",
                denied: "Capability not granted: db(\":memory:\")",
                check: "db(\":memory:\")",
            }),
            pure: Pure::Stub("db_open", "this run has no database drivers"),
        },
        Capability::Serve => Rows {
            native: Native::Held {
                without: "stdout",
                refused: &[
                    NO_SOCKET,
                    Refused("call bind", "EPERM", Some((Layer::Filter, "bind"))),
                    Refused("call listen", "EPERM", Some((Layer::Filter, "listen"))),
                    Refused("call accept4", "EPERM", Some((Layer::Filter, "accept4"))),
                ],
                twin: Twin::NoWay,
            },
            language: Language::NotBuilt {
                program: "require serve({port})\nserve on {port}\n    route \"GET /\"\n        give \"x\"",
                says: "a file with a `serve` block runs under `serve`, not under `run`",
                denied: Some("serve"),
            },
            pure: Pure::Stays("there is no command `serve`"),
        },
    }
}
