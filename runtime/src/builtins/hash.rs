//! Hashes, authentication codes, passwords.
//!
//! Invariant: no sealed value becomes plain here, and codes are compared in constant time.
//! Source: FIPS 180-4, RFC 2104, RFC 9106.

use super::bytes::data;
use super::{Args, Builtin, Cost, Ctx};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use hmac::{Hmac, Mac};
use policies::capability::Capability;
use ripemd::Ripemd160;
use sha2::{Digest, Sha256, Sha512, Sha512_256};
use sha3::Keccak256;
use subtle::ConstantTimeEq;

macro_rules! hash {
    ($name:literal, $hash:ty) => {
        Builtin::new($name, &["data"], 1, |c, a| {
            work(c, a)?;
            Ok(Value::bytes(<$hash>::digest(data(a, 0)?).to_vec()))
        })
        .cost(Cost::Own)
    };
}

pub(super) const TABLE: &[Builtin] = &[
    hash!("sha256", Sha256),
    hash!("sha512", Sha512),
    hash!("sha512_256", Sha512_256),
    hash!("keccak256", Keccak256),
    Builtin::new("hash160", &["data"], 1, |c, a| {
        work(c, a)?;
        Ok(Value::bytes(Ripemd160::digest(Sha256::digest(data(a, 0)?)).to_vec()))
    })
    .cost(Cost::Own),
    Builtin::new("hmac", &["data", "key", "algorithm"], 2, |c, a| {
        work(c, a)?;
        code(data(a, 0)?, data(a, 1)?, algorithm(a, 2)?).map(Value::bytes)
    })
    .cost(Cost::Own),
    Builtin::new("hmac_sha256", &["data", "key"], 2, |c, a| {
        work(c, a)?;
        let code = code(data(a, 0)?, data(a, 1)?, Algo::Sha256)?;
        Ok(Value::string(data_encoding::HEXLOWER.encode(&code)))
    })
    .cost(Cost::Own)
    .replaced_by("decode(hmac(data, key), \"hex\")"),
    Builtin::new("verify_hmac", &["data", "signature", "key", "algorithm"], 3, verify).cost(Cost::Own),
    Builtin::new("constant_time_eq", &["a", "b"], 2, |_, a| Ok(same(data(a, 0)?, data(a, 1)?).into())),
    // Its salt is of the kernel's random numbers.
    Builtin::new("password_hash", &["password"], 1, password_hash).cost(Cost::Own).needs(Capability::Random),
    Builtin::new("password_verify", &["password", "hash"], 2, password_verify).cost(Cost::Own),
];

/// A block of 64 bytes costs about as much as a few instructions.
fn work(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<(), Fault> {
    let bytes: usize = args
        .values
        .iter()
        .map(|v| v.as_text().map_or_else(|| v.as_bytes().map_or(0, <[u8]>::len), str::len))
        .sum();
    ctx.charge(8 + bytes as u64 / 16)
}

#[derive(Clone, Copy)]
enum Algo {
    Sha256,
    Sha512,
}

fn algorithm(args: &Args<'_>, i: usize) -> Result<Algo, Fault> {
    if args.optional(i).is_none() {
        return Ok(Algo::Sha256);
    }
    match args.text(i)? {
        "sha256" => Ok(Algo::Sha256),
        "sha512" => Ok(Algo::Sha512),
        other => Err(raised(format!("{}: unknown algorithm '{other}', one of sha256, sha512", args.name))),
    }
}

fn code(message: &[u8], key: &[u8], algo: Algo) -> Result<Vec<u8>, Fault> {
    fn of<M: Mac + hmac::digest::KeyInit>(message: &[u8], key: &[u8]) -> Result<Vec<u8>, Fault> {
        let mut mac =
            <M as Mac>::new_from_slice(key).map_err(|_| raised("hmac: the key has a wrong length"))?;
        mac.update(message);
        Ok(mac.finalize().into_bytes().to_vec())
    }
    match algo {
        Algo::Sha256 => of::<Hmac<Sha256>>(message, key),
        Algo::Sha512 => of::<Hmac<Sha512>>(message, key),
    }
}

/// Equal in constant time for texts of one length.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

fn verify(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    work(ctx, args)?;
    let expected = code(data(args, 0)?, data(args, 2)?, algorithm(args, 3)?)?;
    let given = data(args, 1)?;
    if args.at(1).as_text().is_some() {
        // A signature as text is its hex form.
        let given = given.strip_prefix(b"0x").unwrap_or(given).to_ascii_lowercase();
        return Ok(same(data_encoding::HEXLOWER.encode(&expected).as_bytes(), &given).into());
    }
    Ok(same(&expected, given).into())
}

/// Memory in KiB, passes and lanes of a new hash: the first choice of RFC 9106's followers for servers.
const NEW: (u32, u32, u32) = (19_456, 2, 1);
/// The most that a hash from outside may ask for.
const MOST: (u32, u32, u32) = (262_144, 16, 16);

fn pay(ctx: &mut Ctx<'_>, (memory, passes, _): (u32, u32, u32)) -> Result<(), Fault> {
    ctx.reserve(memory as usize * 1024)?;
    ctx.charge(u64::from(memory) * u64::from(passes) * 8)
}

fn password_hash(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (memory, passes, lanes) = NEW;
    pay(ctx, NEW)?;
    let mut salt = [0; 16];
    ctx.core.host.random(&mut salt);
    let failed = |e: &dyn std::fmt::Display| raised(format!("password_hash: {e}"));
    let salt = SaltString::encode_b64(&salt).map_err(|e| failed(&e))?;
    let params = Params::new(memory, passes, lanes, None).map_err(|e| failed(&e))?;
    let hash = Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password(data(args, 0)?, &salt)
        .map_err(|e| failed(&e))?;
    Ok(Value::string(hash.to_string()))
}

fn password_verify(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let password = data(args, 0)?;
    let not_one =
        || raised("password_verify: the hash is not an argon2id hash in PHC form ($argon2id$v=19$…)");
    let hash = PasswordHash::new(args.text(1)?).map_err(|_| not_one())?;
    if hash.algorithm != argon2::ARGON2ID_IDENT || hash.salt.is_none() || hash.hash.is_none() {
        return Err(not_one());
    }
    let params = Params::try_from(&hash).map_err(|_| not_one())?;
    let wanted = (params.m_cost(), params.t_cost(), params.p_cost());
    if wanted.0 > MOST.0 || wanted.1 > MOST.1 || wanted.2 > MOST.2 {
        return Err(raised("password_verify: the hash asks for more memory or time than is allowed"));
    }
    pay(ctx, wanted)?;
    Ok(Argon2::default().verify_password(password, &hash).is_ok().into())
}
