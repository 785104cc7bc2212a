//! What a confined runtime may ask of the network and of a model: one request of HTTP, one prompt.
//!
//! The runtime follows redirects itself, hop by hop, so that its gate is asked for each; the supervisor sees single
//! requests and asks the ceiling for each of them again.
//!
//! Invariant: what is here is bounded before anybody acts on it, and a header says whether it carries a secret.
//! Source: RFC 9110 (methods, fields), RFC 9112 section 5 (field syntax).

use crate::{
    broker::Breach,
    scope::{Host, HostTarget},
};
use serde::{Deserialize, Serialize};

/// Longest URL, in bytes.
pub const MOST_URL: usize = 8 << 10;
/// Most fields of a request.
pub const MOST_FIELDS: usize = 64;
/// Bytes of all fields of a request.
pub const MOST_FIELD_BYTES: usize = 24 << 10;
/// Largest body of a request.
pub const MOST_BODY: usize = 8 << 20;
/// Largest body of an answer, whatever was asked for.
pub const MOST_ANSWER: u64 = 64 << 20;
/// Longest time, in milliseconds.
pub const LONGEST_MS: u64 = 10 * 60 * 1000;

/// The methods that can be asked for. CONNECT and TRACE are absent on purpose: the one makes a tunnel, the other one
/// sends back what was sealed.
pub const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];

/// Fields that the client sets itself: they say where a request goes and where it ends.
const OWN: [&str; 13] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "upgrade",
    "expect",
    "te",
    "trailer",
    "keep-alive",
    "http2-settings",
    "proxy-authorization",
    "proxy-connection",
    "accept-encoding",
];

/// One request of HTTP. Its body was sent before, in pieces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// One of [`METHODS`].
    pub method: String,
    /// Where to.
    pub url: String,
    /// Fields in their order.
    pub fields: Vec<(String, String)>,
    /// Until the whole answer is there.
    pub timeout_ms: u64,
    /// Bytes of the answer's body that are wanted at most; more is a failure.
    pub most: u64,
}

impl Fetch {
    /// Bounds of size alone; a peer that passes them is dropped.
    pub(crate) fn bounded(&self) -> Result<(), Breach> {
        let bytes: usize = self.fields.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        let wrong = |what| Err(Breach::Bound(what));
        match self {
            _ if self.url.len() > MOST_URL => wrong("a URL"),
            _ if self.method.len() > 16 => wrong("a method"),
            _ if self.fields.len() > MOST_FIELDS || bytes > MOST_FIELD_BYTES => {
                wrong("the fields of a request")
            }
            _ if self.timeout_ms > LONGEST_MS || self.most > MOST_ANSWER => {
                wrong("the time or size of an answer")
            }
            _ => Ok(()),
        }
    }
}

/// Why a method or a field can't be sent; `None`: it can.
#[must_use]
pub fn unfit(method: &str, fields: &[(String, String)]) -> Option<String> {
    if !METHODS.contains(&method) {
        return Some(format!("the method {method:?} is none of {}", METHODS.join(" ")));
    }
    let token = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    for (name, value) in fields {
        if !token(name) {
            return Some(format!("{name:?} is no name of a header"));
        }
        if OWN.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            return Some(format!("the header {name} can't be set: it says where a request goes or ends"));
        }
        if value.bytes().any(|b| (b.is_ascii_control() && b != b'\t') || b == 0x7f) {
            // The value is not shown: it may be a secret.
            return Some(format!("the value of the header {name} has a line break or control character"));
        }
    }
    None
}

/// Whether a URL's text has what no URL may have: the readers of URLs take tabs and line breaks out in silence.
#[must_use]
pub fn is_plain(url: &str) -> bool {
    url.len() <= MOST_URL && !url.chars().any(|c| c.is_control() || c == ' ' || c == '\\')
}

/// Where a request goes, in the forms that are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aim {
    /// Host and port.
    pub target: HostTarget,
    /// Whether it speaks TLS.
    pub tls: bool,
    /// Whether the URL names the port.
    pub explicit: bool,
    /// Path and query, in ASCII.
    pub path: String,
    /// The whole URL, normalised, without a fragment.
    pub url: String,
}

impl Aim {
    /// Reads a URL.
    ///
    /// # Errors
    /// What is wrong with it, as a fragment.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if !is_plain(text) {
            return Err("it has a space, a backslash or a control character, or more than 8 KiB");
        }
        let mut url = url::Url::parse(text).map_err(|_| "it is no URL")?;
        Self::of(&mut url)
    }

    /// What a redirect's place means, from here.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn join(&self, place: &str) -> Result<Self, &'static str> {
        if !is_plain(place) {
            return Err("it has a space, a backslash or a control character, or more than 8 KiB");
        }
        let here = url::Url::parse(&self.url).map_err(|_| "it is no URL")?;
        let mut url = here.join(place).map_err(|_| "it is no URL")?;
        Self::of(&mut url)
    }

    /// The same place with more in its query.
    ///
    /// # Errors
    /// It gets too long.
    pub fn with_query(self, more: &[(String, String)]) -> Result<Self, &'static str> {
        if more.is_empty() {
            return Ok(self);
        }
        let mut url = url::Url::parse(&self.url).map_err(|_| "it is no URL")?;
        url.query_pairs_mut().extend_pairs(more);
        if url.as_str().len() > MOST_URL {
            return Err("it has more than 8 KiB");
        }
        Self::of(&mut url)
    }

    fn of(url: &mut url::Url) -> Result<Self, &'static str> {
        let (tls, usual) = match url.scheme() {
            "https" => (true, 443),
            "http" => (false, 80),
            _ => return Err("a URL starts with http:// or https://"),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it has credentials in it; send them in a header");
        }
        let host = url.host_str().ok_or("it names no host")?;
        let host = Host::parse(host).map_err(|_| "its host is none")?;
        let (explicit, port) = (url.port().is_some(), url.port().unwrap_or(usual));
        if port == 0 {
            return Err("its port is 0");
        }
        url.set_fragment(None);
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        if !path.bytes().all(|b| b.is_ascii_graphic()) {
            return Err("its path is not ASCII");
        }
        Ok(Self { target: HostTarget { host, port }, tls, explicit, path, url: url.as_str().to_owned() })
    }

    /// Whether both go to the same scheme, host and port: what was sealed for the one may go to the other.
    #[must_use]
    pub fn same_origin(&self, other: &Self) -> bool {
        self.tls == other.tls && self.target == other.target
    }

    /// The host as a request names it, with the port where it is not the scheme's own.
    #[must_use]
    pub fn authority(&self) -> String {
        let usual = if self.tls { 443 } else { 80 };
        if self.target.port == usual {
            self.target.host.to_string()
        } else {
            format!("{}:{}", self.target.host, self.target.port)
        }
    }
}

/// One prompt for a model. Its text was sent before, in pieces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prompt {
    /// What the model is told of its task.
    pub system: String,
    /// Tokens of the answer at most.
    pub most_tokens: u32,
    /// For what it is asked.
    pub purpose: Purpose,
    /// What the text is.
    pub form: Form,
}

/// For what a model is asked: the capability that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// An operation: `llm`.
    Operation,
    /// A judgement: `judge`.
    Judgement,
}

/// What a prompt's text is, and its answer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// One question, one text.
    Text,
    /// [`Turns`](crate::turns::Turns) as JSON; the answer is [`Spoken`](crate::turns::Spoken) as JSON.
    Turns,
}

/// What became of a request. The body stands beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A server has answered.
    Answered {
        /// The status.
        status: u16,
        /// Fields in their order, names in lower case.
        fields: Vec<(String, String)>,
    },
    /// A model has answered.
    Said {
        /// Tokens of the prompt and the answer.
        tokens: u64,
    },
    /// No model is set up.
    Offline,
    /// The budget of tokens is used up.
    Spent {
        /// Tokens that were used.
        used: u64,
        /// Tokens that were allowed.
        of: u64,
    },
    /// There is no answer.
    Failed {
        /// Of which kind.
        kind: Failure,
        /// Why, as a fragment.
        why: String,
    },
}

/// Kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The name has no address.
    Dns,
    /// No address may be reached, or none listens.
    Refused,
    /// The time is over.
    Timeout,
    /// The certificate or the handshake.
    Tls,
    /// The answer is larger than was wanted.
    TooLarge,
    /// Anything else on the way.
    Io,
}

impl Failure {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::Tls => "tls",
            Self::TooLarge => "too_large",
            Self::Io => "io",
        }
    }
}

/// What is known of the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelState {
    /// Whether one is set up.
    pub available: bool,
    /// Calls that were answered.
    pub calls: u64,
    /// Tokens used by this run.
    pub used: u64,
    /// Tokens that it may use.
    pub budget: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_into_what_is_compared() {
        let aim = Aim::parse("https://API.Example.com.:8443/a b".replace(' ', "%20").as_str()).unwrap();
        assert_eq!(aim.target, HostTarget { host: Host::parse("api.example.com").unwrap(), port: 8443 });
        assert_eq!((aim.tls, aim.explicit, aim.path.as_str()), (true, true, "/a%20b"));
        let aim = Aim::parse("http://0x7f.1?x=é#f").unwrap();
        assert_eq!((aim.authority(), aim.path), ("127.0.0.1".to_owned(), "/?x=%C3%A9".to_owned()));
        for text in [
            "ftp://a/",
            "a.example",
            "http://a/\r\nHost: b",
            "http://a/ x",
            "http://u:p@a/",
            "http://a\\@b/",
            "http://a:0/",
            "file:///etc/passwd",
            "http://[::1",
            "http:///",
        ] {
            assert!(Aim::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_query_is_written_so_that_nothing_in_it_ends_it() {
        let aim = Aim::parse("http://a.example/x?a=1").unwrap();
        let more = [("b c".to_owned(), "&=\r\n#/é".to_owned())];
        assert_eq!(aim.clone().with_query(&more).unwrap().path, "/x?a=1&b+c=%26%3D%0D%0A%23%2F%C3%A9");
        assert!(aim.with_query(&[("a".to_owned(), "b".repeat(9000))]).is_err());
    }

    #[test]
    fn a_redirect_is_read_from_where_it_stands() {
        let aim = Aim::parse("https://a.example/x/y").unwrap();
        assert_eq!(aim.join("../z?q").unwrap().url, "https://a.example/z?q");
        assert!(aim.join("/z").unwrap().same_origin(&aim));
        for other in ["//b.example/", "http://a.example/", "https://a.example:444/"] {
            assert!(!aim.join(other).unwrap().same_origin(&aim), "{other}");
        }
        assert!(aim.join("javascript:1").is_err() && aim.join("/a\nb").is_err());
    }

    #[test]
    fn fields_that_could_smuggle_are_refused() {
        let field = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        assert_eq!(unfit("GET", &field("X-Key", "a\tb é")), None);
        for (name, value) in [
            ("X", "a\r\nHost: b"),
            ("X", "a\nb"),
            ("X", "a\0"),
            ("X Y", "a"),
            ("X:", "a"),
            ("", "a"),
            ("Host", "b"),
            ("content-length", "3"),
            ("Transfer-Encoding", "chunked"),
            ("Connection", "upgrade"),
        ] {
            assert!(unfit("GET", &field(name, value)).is_some(), "{name}: {value:?}");
        }
        for method in ["CONNECT", "TRACE", "get", "GET /x HTTP/1.1\r\n", ""] {
            assert!(unfit(method, &[]).is_some(), "{method}");
        }
    }
}
