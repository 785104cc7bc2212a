//! TLS: whose certificates are believed, and the handshake.
//!
//! The roots' file is read before the process is confined and taken apart when the first connection wants TLS. Without
//! any root no connection with TLS succeeds; nothing is ever believed unchecked.
//!
//! Source: RFC 8446, RFC 5280; the places are those of the distributions' own packages.

use super::wire::{Failed, Way};
use policies::{fetch::Failure, scope::Host};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    pki_types::{CertificateDer, IpAddr, ServerName, pem::PemObject},
};
use std::{fs::File, io::Read, path::Path, sync::Arc};

/// Where distributions keep the authorities' certificates, as one file.
const PLACES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Largest file of them.
const MOST: u64 = 8 << 20;

/// The bytes of the file; empty where there is none.
pub(super) fn roots(named: Option<&Path>) -> Vec<u8> {
    let read = |path: &Path| {
        let mut bytes = Vec::new();
        File::open(path).and_then(|file| file.take(MOST).read_to_end(&mut bytes)).ok()?;
        Some(bytes)
    };
    match named {
        Some(path) => read(path),
        None => PLACES.iter().find_map(|place| read(Path::new(place))),
    }
    .unwrap_or_default()
}

/// What will be spoken inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spoken {
    /// HTTP/1.1.
    Http,
    /// Nothing that the server is told.
    Anything,
}

/// The roots, and what is made of them at the first use.
pub(super) struct Tls {
    pem: Vec<u8>,
    config: Option<Arc<ClientConfig>>,
}

impl Tls {
    pub(super) fn new(pem: Vec<u8>) -> Self {
        Self { pem, config: None }
    }

    fn config(&mut self) -> Result<Arc<ClientConfig>, Failed> {
        if let Some(config) = &self.config {
            return Ok(config.clone());
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&self.pem).flatten());
        if roots.is_empty() {
            let why =
                "no certificates of authorities were found; the host can name their file in SSL_CERT_FILE";
            return Err(Failed::new(Failure::Tls, why));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Failed::new(Failure::Tls, error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        self.pem = Vec::new();
        let config = Arc::new(config);
        self.config = Some(config.clone());
        Ok(config)
    }

    /// The handshake, to its end: nothing is sent before the certificate was checked.
    pub(super) fn shake_hands(
        &mut self,
        spoken: Spoken,
        host: &Host,
        way: &mut Way,
    ) -> Result<ClientConnection, Failed> {
        let name = match host {
            Host::Name(name) => ServerName::try_from(name.clone())
                .map_err(|_| Failed::new(Failure::Tls, "the name can stand in no certificate"))?,
            Host::Ip(address) => ServerName::IpAddress(IpAddr::from(*address)),
        };
        let mut config = self.config()?;
        if spoken == Spoken::Anything {
            Arc::make_mut(&mut config).alpn_protocols.clear();
        }
        let mut connection = ClientConnection::new(config, name)
            .map_err(|error| Failed::new(Failure::Tls, error.to_string()))?;
        while connection.is_handshaking() {
            connection.complete_io(way)?;
        }
        Ok(connection)
    }
}
