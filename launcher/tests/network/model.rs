//! Model operations against a provider of the tests' own.

use crate::{
    program::{Given, synsema},
    server::{Server, answer},
};

fn openai(text: &'static str) -> Server {
    Server::plain(move |_| {
        let body = format!(
            r#"{{"choices":[{{"message":{{"content":"{text}"}}}}],"usage":{{"prompt_tokens":30,"total_tokens":40}}}}"#
        );
        answer("200 OK", "Content-Type: application/json\r\n", &body)
    })
}

fn with(given: Given, provider: &str, server: &Server) -> Given {
    let key = if provider == "openai" { "OPENAI_API_KEY" } else { "ANTHROPIC_API_KEY" };
    given
        .variable("SYNSEMA_LLM_PROVIDER", provider)
        .variable("SYNSEMA_LLM_MODEL", "test-model")
        .variable("SYNSEMA_LLM_BASE_URL", &format!("http://127.0.0.1:{}/v1", server.port))
        .variable(key, "sk-very-secret")
}

#[test]
fn without_a_provider_there_are_placeholders() {
    let left = synsema(
        r#"print(llm_available(), llm_usage())
print(decide between ["a", "b"])
print(reason about "x")
print(llm_stream("p", nothing, (t) => print("got", t)))
"#,
    )
    .ceiling("llm")
    .variable("OPENAI_API_KEY", "sk-very-secret")
    .run();
    assert_eq!(
        left.out(),
        "false {calls: 0, tokens: 0, budget: nothing}\n[decision pending]\n[reasoning pending]\n\
         got [generation pending]\n[generation pending]"
    );
    assert_eq!(left.report.llm_tokens, 0);
}

#[test]
fn a_provider_is_asked_with_a_key_that_the_jail_never_holds() {
    let server = openai("Beta.");
    let program = r#"require env
print(llm_available())
print(decide between ["alpha", "beta"] given "the second one")
print(generate "a poem" with max_tokens = 7)
print(llm_usage())
try
    print(env("OPENAI_API_KEY"))
recover e
    print("no key")
"#;
    let left = with(synsema(program).ceiling("llm,env=X"), "openai", &server).run();
    assert_eq!(left.out(), "true\nbeta\nBeta.\n{calls: 2, tokens: 80, budget: nothing}\nno key");
    assert_eq!(left.report.llm_tokens, 80);
    assert!(!left.text.contains("sk-very-secret"));
    let asked = server.asked();
    assert_eq!(
        (asked[0].path.as_str(), asked[0].field("authorization")),
        ("/v1/chat/completions", Some("Bearer sk-very-secret"))
    );
    let body: serde_json::Value = serde_json::from_str(&asked[0].body).unwrap();
    assert_eq!(body["model"], "test-model");
    assert_eq!(body["messages"][1]["content"], "Options:\n- alpha\n- beta\n\ngiven:\nthe second one");
    let body: serde_json::Value = serde_json::from_str(&asked[1].body).unwrap();
    assert_eq!(body["max_tokens"], 7);
    let entries = left.audit("network");
    assert!(entries.len() == 2 && entries[0].contains("40 tokens"), "{entries:?}");
}

#[test]
fn the_other_shape_is_spoken_as_well() {
    let server = Server::plain(|_| {
        answer(
            "200 OK",
            "",
            r#"{"content":[{"type":"text","text":"four"}],"usage":{"input_tokens":1,"output_tokens":2}}"#,
        )
    });
    let left =
        with(synsema("print(analyze \"2+2\" for \"its value\")").ceiling("llm"), "anthropic", &server).run();
    assert_eq!((left.out().as_str(), left.report.llm_tokens), ("four", 3));
    let asked = &server.asked()[0];
    assert_eq!((asked.path.as_str(), asked.field("x-api-key")), ("/v1/messages", Some("sk-very-secret")));
    assert_eq!(asked.field("anthropic-version"), Some("2023-06-01"));
}

#[test]
fn a_model_is_asked_only_under_its_own_grant_and_budget() {
    let server = openai("yes");
    let left = with(synsema("print(reason about \"x\")").ceiling("time"), "openai", &server).run();
    assert!(left.error().contains("llm"), "{}", left.error());
    // The provider is no host that a program may reach.
    let text = format!("require net\nfetch(\"http://127.0.0.1:{}/\")", server.port);
    assert!(with(synsema(&text).ceiling("llm"), "openai", &server).run().error().contains("net("));
    assert!(server.asked().is_empty());
    let program = "print(reason about \"x\")\nprint(reason about \"y\")\nprint(llm_usage().budget)";
    let left =
        with(synsema(program).ceiling("llm"), "openai", &server).variable("SYNSEMA_LLM_BUDGET", "10").run();
    assert_eq!(left.out(), "yes\n[llm budget exceeded: used 40 of 10 tokens]\n10");
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn a_provider_that_fails_stops_no_program() {
    let server = Server::plain(|_| answer("401 Unauthorized", "", r#"{"error":"sk-very-secret is wrong"}"#));
    let left = with(synsema("print(reason about \"x\")").ceiling("llm"), "openai", &server).run();
    assert_eq!(left.out(), "[llm unavailable: the provider answered with status 401]");
    assert!(!left.text.contains("sk-very-secret") && left.report.llm_tokens == 0);
}

#[test]
fn a_program_and_those_that_it_starts_share_one_budget() {
    let server = openai("yes");
    let inner = r#"print(reason about \"a\")\nprint(reason about \"b\")\nprint(reason about \"c\")\nprint(llm_usage().budget)"#;
    let program = format!(
        "require sandbox_run\nprint(reason about \"x\")\nlet r be run_program(\"{inner}\", {{\"ceiling\": \"stdout,llm\", \"env\": \
         {{\"SYNSEMA_LLM_PROVIDER\": \"openai\", \"SYNSEMA_LLM_MODEL\": \"m\", \"OPENAI_API_KEY\": \"k\"}}}})\n\
         each line in r.output\n    print(line)\nprint(reason about \"y\")\nprint(llm_usage().tokens)"
    );
    let left = with(synsema(&program).ceiling("llm,sandbox_run"), "openai", &server)
        .variable("SYNSEMA_LLM_BUDGET", "100")
        .run();
    assert_eq!(
        left.out(),
        "yes\nyes\nyes\n[llm budget exceeded: used 80 of 60 tokens]\n60\n[llm budget exceeded: used 120 of 100 tokens]\n120"
    );
    assert_eq!((left.report.llm_tokens, server.asked().len()), (120, 3));
}

#[test]
fn an_answer_that_cannot_be_read_is_counted() {
    let server = Server::plain(|_| answer("200 OK", "", "<html>no model at all, but it has worked</html>"));
    let program = "print(reason about \"x\")\nprint(reason about \"y\")";
    let left =
        with(synsema(program).ceiling("llm"), "openai", &server).variable("SYNSEMA_LLM_BUDGET", "10").run();
    let used = left.report.llm_tokens;
    assert!(used > 10, "{used}");
    assert_eq!(
        left.out(),
        format!(
            "[llm unavailable: the provider's answer can't be read]\n[llm budget exceeded: used {used} of 10 tokens]"
        )
    );
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn a_step_carries_a_conversation_and_brings_calls_back() {
    let server = Server::plain(|asked| {
        let body = if asked.body.contains("tool_call_id") {
            r#"{"choices":[{"message":{"content":"It is 7."}}],"usage":{"total_tokens":4}}"#
        } else {
            r#"{"choices":[{"message":{"content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"add","arguments":"{\"a\": 3, \"b\": 4}"}}]}}],"usage":{"total_tokens":3}}"#
        };
        answer("200 OK", "", body)
    });
    let program = r#"let tools be [{"name": "add", "description": "adds", "parameters": {"type": "object"}}]
let talk be [{"role": "system", "content": "be short"}, {"role": "user", "content": "3 + 4?"}]
let said be llm_step(talk, tools)
print(said.done, said.calls[0].name, said.calls[0].arguments.a + said.calls[0].arguments.b)
set talk to append(talk, said)
set talk to append(talk, {"role": "tool", "id": said.calls[0].id, "content": "7"})
print(llm_step(talk, tools))
print(llm_usage().tokens)
"#;
    let left = with(synsema(program).ceiling("llm"), "openai", &server).run();
    assert_eq!(
        left.out(),
        "false add 7\n{role: \"assistant\", content: \"It is 7.\", done: true, calls: []}\n7"
    );
    let body: serde_json::Value = serde_json::from_str(&server.asked()[1].body).unwrap();
    assert_eq!(
        body["messages"][3],
        serde_json::json!({"role": "tool", "tool_call_id": "c1", "content": "7"})
    );
    let left = with(synsema(program).ceiling("time"), "openai", &server).run();
    assert!(left.error().contains("llm"), "{}", left.error());
}

#[test]
fn judgements_are_values_and_have_a_grant_of_their_own() {
    let program = r#"require judge
print(judge_whether({"late": true}, "is it late?"), judge_choose("x", "which?", ["yes", "maybe"]), judge_rate("x", "how much?"))
"#;
    let server = openai("Yes.");
    let left = with(synsema(program).ceiling("judge"), "openai", &server).run();
    assert_eq!((left.out().as_str(), left.report.llm_tokens), ("true yes nothing", 120));
    let seven = openai("7");
    assert_eq!(with(synsema(program).ceiling("judge"), "openai", &seven).run().out(), "nothing nothing 7.0");
    let left = with(synsema(program).ceiling("llm"), "openai", &server).run();
    assert!(left.error().contains("Capability not granted: judge"), "{}", left.error());
    assert_eq!(server.asked().len(), 3);
    assert_eq!(synsema(program).ceiling("judge").run().out(), "nothing nothing nothing");
    let left =
        with(synsema(program).ceiling("judge"), "openai", &server).variable("SYNSEMA_LLM_BUDGET", "1").run();
    assert_eq!(left.out(), "true nothing nothing");
}
