//! Names of families that aren't built yet, and of machines' affairs under the pure profile: bound to stubs that
//! say so, never `Undefined variable`. A family that builds one of them comes earlier in the list and wins.

use super::{Builtin, Profile};

const fn local(name: &'static str, why: &'static str) -> Builtin {
    native(name, why, NOT_BUILT)
}

/// One that would be native, with a reason of its own.
const fn native(name: &'static str, why: &'static str, missing: &'static str) -> Builtin {
    let mut b = Builtin::missing(name, missing);
    b.profile = Profile::Native(why);
    b
}

/// For what this runtime lacks.
pub(super) const NOT_BUILT: &str = "this family of builtins isn't built into this runtime yet";
const DRAWN: &str = "not built into this runtime: drawing takes a renderer and fonts, which it leaves out; the SVG text can be \
                     written to a file and drawn elsewhere";
const COLUMNS: &str = "not built into this runtime: the format takes a library larger than the runtime itself; csv_encode and \
                       json_encode write tables";
const IDENTITY: &str = "not built into this runtime: requests show no certificate of the program's";
const PUSHED: &str = "not built into this runtime: it sends no push messages; http_post reaches a push service that takes them";
const LISTENED: &str = "not built into this runtime: a program under `run` takes no connections from outside; a foreign program \
                        under `exec` does, with `serve=PORT` in its ceiling";
const SERVED: &str = "a server's state is there under `serve` only; `remember` keeps things from run to run";
const FILES: &str = "this run has no filesystem";
/// For families that need children or watch the machine.
pub(super) const HUB: &str = "this run has no child processes nor an I/O hub (select/proc_* need a process)";
/// For connections.
pub(super) const SOCKETS: &str = "this run has no sockets";
const DATABASE: &str = "this run has no database drivers";

macro_rules! table {
    ($(($why:expr, [$($name:literal),* $(,)?])),* $(,)? ; plain [$($plain:literal),* $(,)?]) => {
        pub(super) const TABLE: &[Builtin] = &[
            $($(local($name, $why),)*)*
            $(Builtin::missing($plain, NOT_BUILT),)*
            native("mtls_identity", FILES, IDENTITY),
            native("parquet_read", FILES, COLUMNS),
            native("parquet_write", FILES, COLUMNS),
            native("push_send", SOCKETS, PUSHED),
            native("tcp_listen", SOCKETS, LISTENED),
            native("tcp_accept", SOCKETS, LISTENED),
            Builtin::missing("svg_to_png", DRAWN),
            Builtin::missing("svg_to_pdf", DRAWN),
            Builtin::missing("state_set", SERVED),
            Builtin::missing("state_get", SERVED),
            Builtin::missing("state_incr", SERVED),
            Builtin::missing("state_delete", SERVED),
            Builtin::missing("state_all", SERVED),
        ];
    };
}

table! {
    (FILES, [
        "read_file", "read_file_bytes", "file_exists", "file_info", "list_dir", "grep", "write_file", "append_file",
        "edit_file", "delete_file", "delete_dir", "cwd",
    ]),
    (DATABASE, [
        "mongo_find", "mongo_insert",
        "mongo_update", "mongo_delete", "redis_get", "redis_set", "redis_del",
    ]);
    plain [
        "trace_of", "private", "declassify", "label_of", "is_private", "spend", "spend_total",
        "attest", "attest_key", "attestation_verify", "groth16_verify", "jwt_sign", "jwt_verify",
        "jwt_decode", "totp", "totp_verify", "captoken_create", "captoken_verify", "oidc_verify",
        "http_signature_verify", "webauthn_verify", "evm_call", "evm_send", "abi_encode", "abi_decode",
        "solana_call", "algorand_call", "btc_call", "bech32_encode", "bech32_decode", "rlp_encode",
        "rlp_decode", "secp256k1_sign", "ed25519_sign", "schnorr_sign", "http_sign", "secp256k1_verify",
        "ed25519_verify", "schnorr_verify", "mnemonic_new", "mnemonic_to_seed", "hd_derive", "keystore_open",
        "wif_import", "ok", "created", "not_found", "fail", "html", "respond", "redirect", "content", "page",
        "laplace_noise", "gaussian_noise", "lineage", "receipt",
    ]
}

/// Families whose names are many: one of them is never `Undefined variable`, listed above or not.
const PREFIXES: [&str; 24] = [
    "eth_",
    "evm_",
    "abi_",
    "rlp_",
    "solana_",
    "algorand_",
    "btc_",
    "bech32_",
    "base58_",
    "secp256k1_",
    "ed25519_",
    "schnorr_",
    "mnemonic_",
    "hd_",
    "keystore_",
    "wif_",
    "groth16_",
    "attestation_",
    "attest_",
    "captoken_",
    "oidc_",
    "webauthn_",
    "jwt_",
    "totp_",
];

/// What a name of such a family says where the program has none of that name.
pub(crate) fn missing_by_family(name: &str) -> Option<&'static str> {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)).then_some(NOT_BUILT)
}
