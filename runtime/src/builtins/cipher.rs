//! Keys and encryption: HKDF, AES-GCM, Diffie-Hellman on curves; and multipart bodies.
//!
//! Source: RFC 5869, NIST SP 800-38D, RFC 7748, RFC 7578.

use super::bytes::data;
use super::{Args, Builtin, Cost, Ctx, convert};
use crate::vm::render::{display, inside, type_name};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes128Gcm, Aes256Gcm};
use policies::capability::Capability;
use sha2::{Digest, Sha256};

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("hkdf_sha256", &["key", "salt", "info", "length"], 4, hkdf),
    Builtin::new("aes_gcm_encrypt", &["key", "nonce", "data", "aad"], 3, encrypt),
    Builtin::new("aes_gcm_decrypt", &["key", "nonce", "data", "aad", "default"], 3, decrypt),
    Builtin::new("ecdh_public", &["curve", "private"], 2, public).cost(Cost::Own),
    Builtin::new("ecdh_shared_secret", &["curve", "private", "public"], 3, shared).cost(Cost::Own),
    Builtin::new("ecdh_keypair", &["curve"], 1, keypair).cost(Cost::Own).needs(Capability::Random),
    Builtin::new("multipart_encode", &["parts"], 1, multipart),
];

fn hkdf(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let n = args.int(3, "length")?;
    if !(1..=255 * 32).contains(&n) {
        return Err(raised(format!("hkdf_sha256: length must be from 1 to 8160, got {n}")));
    }
    let salt = if args.optional(1).is_some() { Some(data(args, 1)?) } else { None };
    let info = if args.optional(2).is_some() { data(args, 2)? } else { b"" };
    let mut out = vec![0; n as usize];
    hkdf::Hkdf::<Sha256>::new(salt, data(args, 0)?)
        .expand(info, &mut out)
        .map_err(|_| raised("hkdf_sha256: the length is too large"))?;
    Ok(Value::bytes(out))
}

/// Seals or opens with one cipher; `None` if the key has another length, or the data isn't authentic.
fn with<C: Aead + KeyInit>(
    key: &[u8],
    nonce: &[u8],
    payload: Payload<'_, '_>,
    sealing: bool,
) -> Option<Vec<u8>> {
    let cipher = C::new_from_slice(key).ok()?;
    let nonce = aes_gcm::aead::Nonce::<C>::from_slice(nonce);
    if sealing { cipher.encrypt(nonce, payload).ok() } else { cipher.decrypt(nonce, payload).ok() }
}

fn nonce<'a>(args: &'a Args<'_>) -> Result<&'a [u8], Fault> {
    let nonce = data(args, 1)?;
    if nonce.len() == 12 {
        Ok(nonce)
    } else {
        Err(raised(format!("{}: the nonce must have 12 bytes, got {}", args.name, nonce.len())))
    }
}

fn apply(args: &Args<'_>, sealing: bool) -> Result<Option<Vec<u8>>, Fault> {
    let (key, nonce, msg) = (data(args, 0)?, nonce(args)?, data(args, 2)?);
    let aad = if args.optional(3).is_some() { data(args, 3)? } else { b"" };
    let payload = Payload { msg, aad };
    match key.len() {
        16 => Ok(with::<Aes128Gcm>(key, nonce, payload, sealing)),
        32 => Ok(with::<Aes256Gcm>(key, nonce, payload, sealing)),
        n => Err(raised(format!("{}: the key must have 16 or 32 bytes, got {n}", args.name))),
    }
}

fn encrypt(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    ctx.reserve(data(args, 2)?.len() + 16)?;
    match apply(args, true)? {
        Some(out) => Ok(Value::bytes(out)),
        None => Err(raised("aes_gcm_encrypt: the data is too long")),
    }
}

fn decrypt(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    ctx.reserve(data(args, 2)?.len())?;
    match apply(args, false)? {
        Some(out) => Ok(Value::bytes(out)),
        None => convert::or_default(
            args,
            4,
            raised("aes_gcm_decrypt: the data is not authentic (wrong key, nonce or aad, or it was changed)"),
        ),
    }
}

#[derive(Clone, Copy)]
enum Curve {
    X25519,
    P256,
    Secp256k1,
}

/// One multiplication on a curve, in fuel.
const MULTIPLICATION: u64 = 4000;

fn curve(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<Curve, Fault> {
    ctx.charge(MULTIPLICATION)?;
    match args.text(0)? {
        "x25519" => Ok(Curve::X25519),
        "p256" | "P-256" | "secp256r1" => Ok(Curve::P256),
        "secp256k1" => Ok(Curve::Secp256k1),
        other => {
            Err(raised(format!("{}: unknown curve '{other}', one of x25519, p256, secp256k1", args.name)))
        }
    }
}

fn private(args: &Args<'_>) -> Result<[u8; 32], Fault> {
    data(args, 1)?
        .try_into()
        .map_err(|_| raised(format!("{}: the private key must have 32 bytes", args.name)))
}

/// The public key; compressed points for the two Weierstrass curves. `None`: no private key of the curve.
fn public_of(curve: Curve, private: &[u8; 32]) -> Option<Vec<u8>> {
    use k256::elliptic_curve::sec1::ToEncodedPoint as _;
    match curve {
        Curve::X25519 => {
            let secret = x25519_dalek::StaticSecret::from(*private);
            Some(x25519_dalek::PublicKey::from(&secret).as_bytes().to_vec())
        }
        Curve::P256 => {
            let secret = p256::SecretKey::from_slice(private).ok()?;
            Some(secret.public_key().to_encoded_point(true).as_bytes().to_vec())
        }
        Curve::Secp256k1 => {
            let secret = k256::SecretKey::from_slice(private).ok()?;
            Some(secret.public_key().to_encoded_point(true).as_bytes().to_vec())
        }
    }
}

fn public(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let curve = curve(ctx, args)?;
    match public_of(curve, &private(args)?) {
        Some(key) => Ok(Value::bytes(key)),
        None => Err(raised("ecdh_public: the private key is not in the curve's range")),
    }
}

fn shared(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let curve = curve(ctx, args)?;
    let (private, public) = (private(args)?, data(args, 2)?);
    let secret = match curve {
        Curve::X25519 => <[u8; 32]>::try_from(public).ok().and_then(|public| {
            let shared = x25519_dalek::StaticSecret::from(private).diffie_hellman(&public.into());
            // A point of small order gives everybody the same secret.
            shared.was_contributory().then(|| shared.as_bytes().to_vec())
        }),
        Curve::P256 => p256::SecretKey::from_slice(&private).ok().and_then(|secret| {
            let public = p256::PublicKey::from_sec1_bytes(public).ok()?;
            let shared = p256::ecdh::diffie_hellman(secret.to_nonzero_scalar(), public.as_affine());
            Some(shared.raw_secret_bytes().to_vec())
        }),
        Curve::Secp256k1 => k256::SecretKey::from_slice(&private).ok().and_then(|secret| {
            let public = k256::PublicKey::from_sec1_bytes(public).ok()?;
            let shared = k256::ecdh::diffie_hellman(secret.to_nonzero_scalar(), public.as_affine());
            Some(shared.raw_secret_bytes().to_vec())
        }),
    };
    secret.map(Value::bytes).ok_or_else(|| raised("ecdh_shared_secret: invalid key for this curve"))
}

fn keypair(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let curve = curve(ctx, args)?;
    // Nearly every 32 bytes are a private key; a source that never gives one is broken.
    for _ in 0..64 {
        let mut private = [0; 32];
        ctx.core.host.random(&mut private);
        if let Some(public) = public_of(curve, &private) {
            return Ok(Value::record([
                ("public", Value::bytes(public)),
                ("private", Value::bytes(private.to_vec())),
            ]));
        }
    }
    Err(raised("ecdh_keypair: the source of random numbers gives no key"))
}

/// One part of a form.
struct Part {
    name: String,
    filename: Option<String>,
    kind: Option<String>,
    body: Vec<u8>,
}

fn body(name: &str, v: &Value) -> Result<Vec<u8>, Fault> {
    match (v.as_text(), v.as_bytes(), v) {
        (Some(text), _, _) => Ok(text.as_bytes().to_vec()),
        (_, Some(bytes), _) => Ok(bytes.to_vec()),
        (_, _, Value::Int(_) | Value::Float(_) | Value::Big(_) | Value::Bool(_)) => {
            Ok(display(v).into_bytes())
        }
        _ => Err(raised(format!(
            "multipart_encode: the value of '{name}' must be text, bytes, a number or a bool, got {}",
            type_name(v)
        ))),
    }
}

fn parts(args: &Args<'_>) -> Result<Vec<Part>, Fault> {
    if let Value::Map(map) = args.at(0) {
        return map
            .entries()
            .map(|(k, v)| {
                let body = body(k.as_str(), v)?;
                Ok(Part { name: k.as_str().to_owned(), filename: None, kind: None, body })
            })
            .collect();
    }
    let list = args.at(0).as_list().ok_or_else(|| args.wrong(0, "a map or a list of parts"))?;
    list.iter()
        .map(|item| {
            let Value::Map(map) = item else {
                return Err(raised(format!("multipart_encode: a part must be a map, got {}", inside(item))));
            };
            if let Some((odd, _)) = map
                .entries()
                .find(|(k, _)| !["name", "value", "filename", "content_type"].contains(&k.as_str()))
            {
                return Err(raised(format!("multipart_encode: unknown key '{}' of a part", odd.as_str())));
            }
            let text = |key: &str| match map.get(key) {
                None | Some(Value::Nothing) => Ok(None),
                Some(v) => match v.as_text() {
                    Some(t) if !t.contains(['\r', '\n']) => Ok(Some(t.to_owned())),
                    _ => {
                        Err(raised(format!("multipart_encode: '{key}' of a part must be a text of one line")))
                    }
                },
            };
            let name = text("name")?.ok_or_else(|| raised("multipart_encode: a part needs a name"))?;
            let value = map.get("value").unwrap_or(&Value::Nothing);
            let body = body(&name, value)?;
            Ok(Part { name, filename: text("filename")?, kind: text("content_type")?, body })
        })
        .collect()
}

fn multipart(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let parts = parts(args)?;
    let size: usize = parts.iter().map(|p| p.body.len() + 200).sum();
    ctx.charge(size as u64 / 16)?;
    ctx.reserve(size)?;
    // The boundary is a hash of what it separates: the same parts, the same bytes, and it can't be among them.
    let mut hash = Sha256::new();
    for part in &parts {
        for piece in [part.name.as_bytes(), &part.body] {
            hash.update((piece.len() as u64).to_le_bytes());
            hash.update(piece);
        }
    }
    let boundary = format!("form-{}", &data_encoding::HEXLOWER.encode(&hash.finalize())[..32]);
    let quoted = |t: &str| t.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
    let mut out = Vec::with_capacity(size);
    for part in &parts {
        let mut head =
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"", quoted(&part.name));
        if let Some(filename) = &part.filename {
            head.push_str(&format!("; filename=\"{}\"", quoted(filename)));
        }
        if let Some(kind) =
            part.kind.as_deref().or(part.filename.as_ref().map(|_| "application/octet-stream"))
        {
            head.push_str(&format!("\r\nContent-Type: {kind}"));
        }
        head.push_str("\r\n\r\n");
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(&part.body);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok(Value::record([
        ("body", Value::bytes(out)),
        ("content_type", Value::string(format!("multipart/form-data; boundary={boundary}"))),
    ]))
}
