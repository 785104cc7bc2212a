//! One call of each builtin whose work grows with what it is given, on something large, and the fuel that must not be enough
//! for it. The test beside this file runs them all; `benches/prices.rs` measures how long a unit of their fuel takes.

/// A call, and less than its price.
pub(crate) struct Call {
    pub(crate) code: &'static str,
    pub(crate) too_little: u64,
}

/// Less than the price of what no fuel is enough for: trees of 2^40 nodes.
pub(crate) const ENDLESS: u64 = 10_001;

const fn call(too_little: u64, code: &'static str) -> Call {
    Call { code, too_little }
}

/// 60,000 bytes; what reading them costs is the least of a price.
const TEXT: u64 = 60_000 / 32 - 100;
/// 5,000 elements.
const LIST: u64 = 4_900;
/// 1,000 fields.
const MAP: u64 = 950;

/// `s`: a text with 20,000 commas; `u`: one of 30,000 characters of two bytes; `a`: 5,000 ints; `t`: 5,000 texts;
/// `p`: 1,000 pairs; `r`: a record of 1,000 fields; `j`: JSON of 5,000 numbers; `d`: 2^40 nodes, but only 40 arrays.
pub(crate) const SCUA_DATA: &str = "let a = array.range(0, 5000)
let r = {}
for i = 0, 999 do r[`k{i}`] = i end
let d = 1
for i = 1, 40 do d = [d, d] end
let e = 1
for i = 1, 40 do e = [e, e] end
let data = { s = string.repeat(\"ab,\", 20000), u = string.repeat(\"ß\", 30000), a = a, t = array.map(a, str),
  p = record.entries(r), r = r, j = json.encode(a), d = d, e = e }";

pub(crate) const SCUA: &[Call] = &[
    call(TEXT, "str(s)"),
    call(LIST, "str(a)"),
    call(ENDLESS, "str(d)"),
    call(LIST, "`{a}`"),
    call(TEXT, "s .. s"),
    call(TEXT, "s == s .. \"\""),
    call(TEXT, "s < s .. \"x\""),
    call(LIST, "a == array.copy(a)"),
    call(MAP, "r == record.copy(r)"),
    call(ENDLESS, "d == e"),
    call(TEXT / 2, "int(s)"),
    call(TEXT / 2, "float(s)"),
    call(TEXT, "try(fn() fail(s) end)"),
    call(LIST, "reply(a)"),
    call(TEXT, "tag(Some(s)) .. s"),
    call(TEXT, "string.upper(s)"),
    call(TEXT, "string.lower(s)"),
    call(TEXT, "string.trim(s)"),
    call(TEXT, "string.lines(s)"),
    call(60_000, "string.chars(s)"),
    call(30_000, "string.chars(u)"),
    call(20_000, "string.split(s, \",\")"),
    call(TEXT, "string.split(s, \"zz\")"),
    call(TEXT, "string.sub(s, 1, 59990)"),
    call(TEXT, "string.sub(u, 1, 29990)"),
    call(TEXT, "string.find(s, \"zz\")"),
    call(TEXT, "string.find(u, \"ßx\")"),
    call(TEXT, "string.contains(s, \"zz\")"),
    call(TEXT, "string.starts_with(s, s)"),
    call(TEXT, "string.ends_with(s, s)"),
    call(TEXT, "string.replace(s, \",\", \"\")"),
    call(TEXT, "string.replace(s, \",\", \";\")"),
    call(TEXT, "string.replace(s, \",\", \"--\")"),
    call(TEXT, "string.replace(s, \"b,\", \"\")"),
    call(40_000, "string.replace(s, \"a\", string.repeat(\"0123456789\", 7))"),
    call(TEXT, "string.repeat(\"ab\", 40000)"),
    call(TEXT, "string.pad_left(s, 60001, \"x\")"),
    call(TEXT, "string.pad_right(\"x\", 60001, \"x\")"),
    call(TEXT, "string.code(s .. s)"),
    call(LIST / 2, "array.insert(a, 0, 1)"),
    call(LIST, "array.remove(a, 0)"),
    call(LIST, "array.slice(a, 1, 5000)"),
    call(LIST, "array.concat(a, a)"),
    call(LIST, "array.copy(a)"),
    call(LIST, "array.reverse(a)"),
    call(LIST, "array.range(0, 5000)"),
    call(LIST, "array.fill(5000, 1)"),
    call(LIST, "array.map(a, str)"),
    call(LIST, "array.filter(a, str)"),
    call(LIST, "array.any(a, fn(x) return false end)"),
    call(LIST, "array.all(a, str)"),
    call(LIST, "array.find(a, fn(x) return false end)"),
    call(LIST, "array.reduce(a, 0, math.max)"),
    call(LIST, "array.sort(a)"),
    call(LIST, "array.sort(t)"),
    call(LIST, "array.sort(a, fn(x, y) return x < y end)"),
    call(LIST, "array.index_of(a, -1)"),
    call(LIST, "array.contains(a, -1)"),
    call(ENDLESS, "array.contains([d], e)"),
    call(LIST, "array.sum(a)"),
    call(LIST, "array.join(a, \",\")"),
    call(LIST, "array.join(t, \",\")"),
    call(MAP, "record.keys(r)"),
    call(MAP, "record.values(r)"),
    call(MAP, "record.entries(r)"),
    call(MAP, "record.from_entries(p)"),
    call(MAP, "record.copy(r)"),
    call(2 * MAP, "record.merge(r, r)"),
    call(2 * MAP, "record.merge(r, {})"),
    call(MAP / 2, "record.remove(r, \"k5\")"),
    call(LIST, "json.encode(a)"),
    call(MAP, "json.encode(r, 2)"),
    call(ENDLESS, "json.encode(d)"),
    call(TEXT, "json.encode(s)"),
    call(LIST, "json.decode(j)"),
    call(TEXT, "json.decode(s)"),
];

/// Builtins whose work doesn't grow, or whose price is that of what they call or wait for.
pub(crate) const SCUA_CONSTANT: &[&str] = &[
    "len",
    "type",
    "payload",
    "join",
    "pause",
    "string.from_code",
    "array.push",
    "array.pop",
    "record.has",
    "record.get",
    "record.set",
    "math.floor",
    "math.ceil",
    "math.round",
    "math.trunc",
    "math.abs",
    "math.sign",
    "math.min",
    "math.max",
    "math.clamp",
    "math.sqrt",
    "math.pow",
    "math.exp",
    "math.log",
    "math.log2",
    "math.log10",
    "math.sin",
    "math.cos",
    "math.tan",
    "math.asin",
    "math.acos",
    "math.atan",
    "math.atan2",
    "math.is_nan",
    "math.band",
    "math.bor",
    "math.bxor",
    "math.bnot",
    "math.shl",
    "math.shr",
    "math.random",
];

/// As above, where they are the same; `b`: 60,000 bytes; `rows`: 1,000 maps of two fields; `m`: a map of 1,000 numbers;
/// `v`: an array of 5,000 numbers, `w`: 60 × 60 of them; `big`, `half`: integers of 60,000 and 30,000 bits.
pub(crate) const SYNSEMA_DATA: &str = "require random
let a be range(5000)
let s be join(apply((x) => \"ab,\", range(20000)), \"\")
let t be apply((x) => text(x), a)
let l be apply((x) => [x], a)
let u be join(apply((x) => \"ß\", range(30000)), \"\")
let m be {}
let rows be []
each i in range(1000)
    set m[`k{i}`] to i
    set rows to append(rows, {\"id\": `k{i}`, \"x\": i})
let b be bytes(s)
let j be json_encode(a)
let lines be join(apply((x) => \"[1]\", range(5000)), \"\\n\")
let csv be join(apply((x) => \"1,2\", range(5000)), \"\\n\")
let xml be \"<a>\" + join(apply((x) => \"<b/>\", range(5000)), \"\") + \"</a>\"
let ini be join(apply((x) => `k{x} = 1`, range(2000)), \"\\n\")
let v be array(a)
let w be reshape(array(range(3600)), [60, 60])
let big be 3 ** 40000
let half be 3 ** 20000
let d be 1
let e be 1
each i in range(40)
    set d to [d, d]
    set e to [e, e]
";

pub(crate) const SYNSEMA: &[Call] = &[
    call(LIST, "text(a)"),
    call(ENDLESS, "length(text(d))"),
    call(LIST, "length(`{a}`)"),
    call(ENDLESS, "length(`{d}`)"),
    call(ENDLESS, "d == e"),
    call(ENDLESS, "d < e"),
    call(ENDLESS, "e in [d]"),
    call(ENDLESS, "unique([d, e])"),
    call(ENDLESS, "index_of([d], e)"),
    call(ENDLESS, "assert_eq(d, e)"),
    call(ENDLESS, "contains([d], e)"),
    call(ENDLESS, "json_encode(d)"),
    call(ENDLESS, "sort([[d], [e]])"),
    call(LIST, "a == reverse(a)"),
    call(LIST, "[a, 1] == [range(5000), 2]"),
    call(LIST, "-1 in a"),
    call(TEXT, "\"zz\" in s"),
    call(2_000, "big * half"),
    call(10_000, "big // half"),
    call(10_000, "big % half"),
    call(10_000, "3 ** 40000"),
    call(10_000, "length(`{big}`)"),
    call(10_000, "gcd(big, half)"),
    call(10_000, "lcm(big, half)"),
    call(10_000, "product(range(1, 3000))"),
    call(10_000, "factorial(2000)"),
    call(TEXT, "upper(s)"),
    call(TEXT, "lower(s)"),
    call(TEXT, "trim(s)"),
    call(TEXT, "fold_text(s)"),
    call(TEXT, "starts_with(s, s)"),
    call(TEXT, "ends_with(s, s)"),
    call(20_000, "replace(s, \",\", \";\")"),
    call(20_000, "split(s, \",\")"),
    call(60_000, "split(s, \"\")"),
    call(TEXT, "contains(s, \"zz\")"),
    call(TEXT, "index_of(s, \"zz\")"),
    call(TEXT, "slice(s, 1, 59990)"),
    call(LIST, "slice(a, 0, 5000)"),
    call(TEXT, "fmt(s, {})"),
    call(TEXT, "strip_ansi(s)"),
    call(TEXT, "matches(s, \"a*\")"),
    call(10_000, "matches(s, \"(a|b|,){0,400}x\")"),
    call(20_000, "regex_find_all(s, \"a\")"),
    call(TEXT, "regex_capture(s, \"zz\")"),
    call(20_000, "regex_replace(s, \"a\", \"b\")"),
    call(TEXT, "text(bytes(s))"),
    call(TEXT, "decode(b)"),
    call(TEXT, "bytes_to_int(b)"),
    call(TEXT, "sha256(s)"),
    call(TEXT, "sha512(s)"),
    call(TEXT, "sha512_256(s)"),
    call(TEXT, "keccak256(s)"),
    call(TEXT, "hash160(s)"),
    call(TEXT, "hmac(s, \"key\")"),
    call(TEXT, "hmac_sha256(s, \"key\")"),
    call(TEXT, "constant_time_eq(s, s)"),
    call(100_000, "password_hash(\"secret\")"),
    call(LIST, "json_encode(a)"),
    call(LIST, "json_decode(j)"),
    call(LIST, "json_for_script(a)"),
    call(LIST, "canonical_json(a)"),
    call(LIST, "jsonl_encode(a)"),
    call(LIST, "jsonl_decode(lines)"),
    call(LIST, "csv_parse(csv)"),
    call(MAP, "csv_encode(rows)"),
    call(MAP, "toml_encode(m)"),
    call(MAP, "toml_parse(ini)"),
    call(LIST, "xml_parse(xml)"),
    call(LIST, "insert(a, 0, 1)"),
    call(LIST, "range(5000)"),
    call(LIST, "enumerate(a)"),
    call(MAP, "keys(m)"),
    call(MAP, "values(m)"),
    call(MAP, "items(m)"),
    call(MAP, "remove(m, \"k5\")"),
    call(MAP, "merge({}, m)"),
    call(LIST, "sort(a)"),
    call(LIST, "unique(a)"),
    call(LIST, "chunk(a, 1)"),
    call(LIST, "flatten(l)"),
    call(LIST, "count(a)"),
    call(LIST, "count_missing(a)"),
    call(LIST, "mode(a)"),
    call(LIST, "reverse(a)"),
    call(LIST, "a + a"),
    call(LIST, "sum(a)"),
    call(LIST, "mean(a)"),
    call(LIST, "median(a)"),
    call(LIST, "var(a)"),
    call(LIST, "std(a)"),
    call(LIST, "quantile(a, 0.5)"),
    call(LIST, "percentile(a, 50)"),
    call(LIST, "histogram(a, 10)"),
    call(LIST, "min(a)"),
    call(LIST, "max(a)"),
    call(LIST, "cumsum(a)"),
    call(LIST, "diff(a)"),
    call(LIST, "argmin(a)"),
    call(LIST, "argmax(a)"),
    call(LIST, "apply((x) => x, a)"),
    call(LIST, "parallel_map((x) => x, a)"),
    call(LIST, "where(a, (x) => true)"),
    call(LIST, "find_first(a, (x) => false)"),
    call(LIST, "every(a, (x) => true)"),
    call(LIST, "some(a, (x) => false)"),
    call(LIST, "count_where(a, (x) => true)"),
    call(LIST, "transform(a, (x) => x, (x) => true)"),
    call(LIST, "reduce(a, (x, y) => x, 0)"),
    call(LIST, "sort_by(a, (x) => x)"),
    call(LIST, "group_by(a, (x) => x % 7)"),
    call(LIST, "zip_with(a, a, (x, y) => x)"),
    call(MAP, "collect(rows, \"x\")"),
    call(MAP, "count_by(rows, \"x\")"),
    call(LIST, "join(t, \",\")"),
    call(LIST, "fill_missing(a, 0)"),
    call(LIST, "fill_nan(a, 0)"),
    call(LIST, "drop_missing(a)"),
    call(LIST, "shuffle(rng(1), a)"),
    call(LIST, "sample(rng(1), a, 4999)"),
    call(LIST, "array(a)"),
    call(600, "zeros([5000])"),
    call(600, "ones([5000])"),
    call(600, "full([5000], 1)"),
    call(600, "arange(0, 5000, 1)"),
    call(600, "linspace(0, 1, 5000)"),
    call(10_000, "identity(400)"),
    call(600, "to_list(v)"),
    call(600, "concat([v, v])"),
    call(600, "stack([v, v])"),
    call(10_000, "matmul(w, w)"),
    call(600, "dot(v, v)"),
    call(10_000, "inv(w + identity(60) * 7)"),
    call(600, "norm(v)"),
    call(600, "v + v"),
    call(MAP, "chart_svg(\"line\", a)"),
    call(LIST, "date_range(date(2000, 1, 1), date(2020, 1, 1))"),
];
