//! Complex numbers.

use super::arrays::bare;
use super::{Args, Builtin, Cost, Ctx};
use crate::vm::ops::Arith;
use crate::vm::other::Foreign;
use crate::vm::trap::Fault;
use crate::vm::value::Value;
use std::any::Any;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("complex", &["re", "im"], 1, |_, a| {
        if let (Some(z), None) = (a.at(0).as_foreign::<Complex>(), a.optional(1)) {
            return Ok(complex(z.re, z.im));
        }
        let im = if a.optional(1).is_some() { a.float(1)? } else { 0.0 };
        Ok(complex(a.float(0)?, im))
    })
    .cost(Cost::Flat),
    Builtin::new("real", &["z"], 1, |_, a| part(a, |z| Value::Float(z.re))).cost(Cost::Flat),
    Builtin::new("imag", &["z"], 1, |_, a| part(a, |z| Value::Float(z.im))).cost(Cost::Flat),
    Builtin::new("conj", &["z"], 1, |_, a| part(a, |z| complex(z.re, -z.im))).cost(Cost::Flat),
    Builtin::new("arg", &["z"], 1, |_, a| part(a, |z| Value::Float(z.im.atan2(z.re)))).cost(Cost::Flat),
    Builtin::new("abs", &["x"], 1, abs).cost(Cost::Flat),
];

#[derive(Clone, Copy)]
struct Complex {
    re: f64,
    im: f64,
}

/// A complex number.
pub(super) fn complex(re: f64, im: f64) -> Value {
    Value::foreign(Complex { re, im })
}

fn of(v: &Value) -> Option<Complex> {
    if let Some(z) = v.as_foreign::<Complex>() {
        return Some(*z);
    }
    let re = match v {
        Value::Int(n) => *n as f64,
        Value::Float(f) => *f,
        Value::Big(n) => crate::vm::number::big_to_float(&n.0),
        _ => return None,
    };
    Some(Complex { re, im: 0.0 })
}

fn part(args: &Args<'_>, f: fn(Complex) -> Value) -> Result<Value, Fault> {
    of(args.at(0)).map(f).ok_or_else(|| args.wrong(0, "a number"))
}

fn abs(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    match args.at(0).as_foreign::<Complex>() {
        Some(z) => Ok(Value::Float(z.re.hypot(z.im))),
        None => super::math::abs(ctx, args),
    }
}

impl Complex {
    fn times(self, o: Self) -> Self {
        Self { re: self.re * o.re - self.im * o.im, im: self.re * o.im + self.im * o.re }
    }

    fn over(self, o: Self) -> Self {
        // Smith's way: no overflow where the quotient has none.
        if o.re.abs() >= o.im.abs() {
            let r = o.im / o.re;
            let d = o.re + o.im * r;
            Self { re: (self.re + self.im * r) / d, im: (self.im - self.re * r) / d }
        } else {
            let r = o.re / o.im;
            let d = o.re * r + o.im;
            Self { re: (self.re * r + self.im) / d, im: (self.im * r - self.re) / d }
        }
    }

    fn is_zero(self) -> bool {
        self.re == 0.0 && self.im == 0.0
    }

    fn power(self, e: Self) -> Result<Self, String> {
        if self.is_zero() {
            return match (e.re, e.im) {
                (re, im) if re == 0.0 && im == 0.0 => Ok(Self { re: 1.0, im: 0.0 }),
                (re, im) if re > 0.0 && im == 0.0 => Ok(self),
                _ => Err("Zero cannot be raised to a negative power".to_owned()),
            };
        }
        if e.im == 0.0 && e.re.fract() == 0.0 && e.re.abs() <= 1024.0 {
            let mut out = Self { re: 1.0, im: 0.0 };
            let (mut base, mut n) = (self, e.re.abs() as u32);
            while n > 0 {
                if n & 1 == 1 {
                    out = out.times(base);
                }
                base = base.times(base);
                n >>= 1;
            }
            return Ok(if e.re < 0.0 { Self { re: 1.0, im: 0.0 }.over(out) } else { out });
        }
        let (length, angle) = (self.re.hypot(self.im).ln(), self.im.atan2(self.re));
        let exponent = Self { re: length, im: angle }.times(e);
        let scale = exponent.re.exp();
        Ok(Self { re: scale * exponent.im.cos(), im: scale * exponent.im.sin() })
    }
}

impl Foreign for Complex {
    fn type_name(&self) -> &'static str {
        "complex"
    }
    fn render(&self) -> String {
        let im = bare(self.im);
        let sign = if im.starts_with('-') { "" } else { "+" };
        format!("{}{sign}{im}i", bare(self.re))
    }
    fn truthy(&self) -> bool {
        !self.is_zero()
    }
    fn equals(&self, other: &dyn Foreign) -> bool {
        other.any().downcast_ref::<Self>().is_some_and(|o| o.re == self.re && o.im == self.im)
    }
    fn arith(&self, op: Arith, other: &Value, swapped: bool) -> Option<Result<Value, String>> {
        let other = of(other)?;
        let (a, b) = if swapped { (other, *self) } else { (*self, other) };
        let z = match op {
            Arith::Add => Self { re: a.re + b.re, im: a.im + b.im },
            Arith::Sub => Self { re: a.re - b.re, im: a.im - b.im },
            Arith::Mul => a.times(b),
            Arith::Div if b.is_zero() => return Some(Err("Division by zero".to_owned())),
            Arith::Div => a.over(b),
            Arith::Pow => match a.power(b) {
                Ok(z) => z,
                Err(e) => return Some(Err(e)),
            },
            Arith::FloorDiv | Arith::Rem => return None,
        };
        Some(Ok(Value::foreign(z)))
    }
    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "re" => Some(Value::Float(self.re)),
            "im" => Some(Value::Float(self.im)),
            _ => None,
        }
    }
    fn any(&self) -> &dyn Any {
        self
    }
}
