//! A server of HTTP on loopback, with TLS or without, that answers as its test wants.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// A request as it came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A running server; it ends with the tests' process.
pub(crate) struct Server {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
}

type Answer = dyn Fn(&Asked) -> Vec<u8> + Send + Sync;

/// With a body of text.
pub(crate) fn answer(status: &str, fields: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
}

impl Server {
    /// Without TLS.
    pub(crate) fn plain(answer: impl Fn(&Asked) -> String + Send + Sync + 'static) -> Self {
        Self::start(loopback(), None, Arc::new(move |asked| answer(asked).into_bytes()))
    }

    /// With TLS and this certificate.
    pub(crate) fn tls(
        identity: &Identity,
        answer: impl Fn(&Asked) -> String + Send + Sync + 'static,
    ) -> Self {
        let answer = move |asked: &Asked| answer(asked).into_bytes();
        Self::start(loopback(), Some(identity.config.clone()), Arc::new(answer))
    }

    /// With TLS, at a place of the caller's, with any bytes for an answer.
    pub(crate) fn at(
        listener: TcpListener,
        identity: &Identity,
        answer: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        Self::start(listener, Some(identity.config.clone()), Arc::new(answer))
    }

    fn start(listener: TcpListener, config: Option<Arc<ServerConfig>>, answer: Arc<Answer>) -> Self {
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = asked.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, answer, kept) = (config.clone(), answer.clone(), kept.clone());
                thread::spawn(move || match config {
                    None => serve(stream, &*answer, &kept),
                    Some(config) => {
                        let connection = ServerConnection::new(config).unwrap();
                        serve(StreamOwned::new(connection, stream), &*answer, &kept);
                    }
                });
            }
        });
        Self { port, asked }
    }

    /// What was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(stream: impl Read + Write, answer: &Answer, kept: &Mutex<Vec<Asked>>) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return;
    }
    let mut words = line.split(' ').map(str::to_owned);
    let mut asked = Asked {
        method: words.next().unwrap_or_default(),
        path: words.next().unwrap_or_default(),
        ..Asked::default()
    };
    loop {
        let mut field = String::new();
        if reader.read_line(&mut field).unwrap_or(0) <= 2 {
            break;
        }
        let (name, value) = field.trim_end().split_once(": ").unwrap_or_default();
        asked.fields.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length = asked.field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    asked.body = String::from_utf8_lossy(&body).into_owned();
    let text = answer(&asked);
    kept.lock().unwrap().push(asked);
    let out = reader.get_mut();
    let _sent = out.write_all(&text).and_then(|()| out.flush());
}

fn loopback() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// A certificate, and the authority that made it.
pub(crate) struct Identity {
    config: Arc<ServerConfig>,
    /// The authority's own certificate.
    authority: tempfile::NamedTempFile,
}

impl Identity {
    /// For these names or addresses, from an authority of its own.
    pub(crate) fn of(names: &[&str]) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // OpenSSL takes a certificate for its own issuer where both have one name.
        params.distinguished_name.push(DnType::CommonName, "the tests' authority");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from(certificate.der().to_vec())],
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
            )
            .unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(authority.pem().as_bytes()).unwrap();
        Self { config: Arc::new(config), authority: file }
    }

    /// For a server of the test's own.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// The authority's file, as a path.
    pub(crate) fn roots(&self) -> &str {
        self.authority.path().to_str().unwrap()
    }
}

/// A port on loopback with a listener that takes connections and says nothing.
pub(crate) fn silent() -> (u16, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    (listener.local_addr().unwrap().port(), listener)
}

/// A server that sends these bytes to whoever connects, and closes.
pub(crate) fn raw(bytes: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            read_head(&mut stream);
            let _sent = stream.write_all(bytes);
        }
    });
    port
}

fn read_head(stream: &mut TcpStream) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap_or(0) > 2 {
        line.clear();
    }
}
