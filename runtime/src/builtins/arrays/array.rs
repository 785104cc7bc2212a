//! The type: doubles in row order and a shape.

use crate::partition::heap;
use crate::vm::number;
use crate::vm::ops::{Arith, OUT_OF_MEMORY, float_mod};
use crate::vm::other::Foreign;
use crate::vm::value::Value;
use std::any::Any;

/// Axes of one array.
pub(super) const MAX_AXES: usize = 32;

/// Numbers in row order.
pub(super) struct Array {
    pub(super) shape: Vec<usize>,
    pub(super) data: Vec<f64>,
}

/// Makes sure that so many numbers fit.
pub(super) fn room(count: usize) -> Result<(), String> {
    let bytes = (count as u64).saturating_mul(8);
    if bytes > 1 << 16 && heap::would_pass(bytes) { Err(OUT_OF_MEMORY.to_owned()) } else { Ok(()) }
}

/// The number of elements of a shape.
pub(super) fn count(shape: &[usize]) -> Result<usize, String> {
    let product = |least: usize| shape.iter().try_fold(1usize, |n, d| n.checked_mul((*d).max(least)));
    match (product(0), product(1)) {
        // Rows without elements still take room when they are shown.
        (Some(0), Some(rows)) if rows <= 1 << 16 => Ok(0),
        (Some(n), _) if n > 0 && n < 1 << 40 => Ok(n),
        _ => Err(OUT_OF_MEMORY.to_owned()),
    }
}

impl Array {
    pub(super) fn flat(data: Vec<f64>) -> Self {
        Self { shape: vec![data.len()], data }
    }

    pub(super) fn value(self) -> Value {
        Value::foreign(self)
    }

    /// An element or a lower array, as a value.
    fn row(&self, i: usize) -> Value {
        let inner = &self.shape[1..];
        let size: usize = inner.iter().product();
        if inner.is_empty() {
            return Value::Float(self.data[i]);
        }
        Self { shape: inner.to_vec(), data: self.data[i * size..(i + 1) * size].to_vec() }.value()
    }

    /// The rows of a range that is inside.
    pub(super) fn rows(&self, range: std::ops::Range<usize>) -> Self {
        let size: usize = self.shape.iter().skip(1).product();
        let mut shape = self.shape.clone();
        if let Some(first) = shape.first_mut() {
            *first = range.len();
        }
        Self { shape, data: self.data[range.start * size..range.end * size].to_vec() }
    }

    /// Lists of floats; a single float without axes.
    pub(super) fn lists(&self) -> Value {
        fn level(shape: &[usize], data: &[f64]) -> Value {
            match shape {
                [] => Value::Float(data.first().copied().unwrap_or_default()),
                [_] => Value::list(data.iter().map(|f| Value::Float(*f)).collect()),
                [n, inner @ ..] => {
                    let size = data.len().checked_div(*n).unwrap_or(0);
                    Value::list((0..*n).map(|i| level(inner, &data[i * size..(i + 1) * size])).collect())
                }
            }
        }
        level(&self.shape, &self.data)
    }

    pub(super) fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self { shape: self.shape.clone(), data: self.data.iter().map(|x| f(*x)).collect() }
    }
}

/// A number without a trailing `.0`.
pub(in super::super) fn bare(f: f64) -> String {
    let text = number::float(f);
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

fn write(shape: &[usize], data: &[f64], out: &mut String) {
    match shape {
        [] => out.push_str(&bare(data.first().copied().unwrap_or_default())),
        [n, inner @ ..] => {
            let size = data.len().checked_div(*n).unwrap_or(0);
            out.push('[');
            for i in 0..*n {
                if i > 0 {
                    out.push_str(", ");
                }
                write(inner, &data[i * size..(i + 1) * size], out);
            }
            out.push(']');
        }
    }
}

/// The shape of two arrays put together, by numpy's rule: axes match from the last on, or one of them is 1.
fn broadcast(a: &[usize], b: &[usize]) -> Result<Vec<usize>, String> {
    let n = a.len().max(b.len());
    let axis = |s: &[usize], i: usize| if i + s.len() < n { 1 } else { s[i + s.len() - n] };
    (0..n)
        .map(|i| match (axis(a, i), axis(b, i)) {
            (x, y) if x == y => Ok(x),
            (1, y) => Ok(y),
            (x, 1) => Ok(x),
            _ => Err(format!("array shapes {a:?} and {b:?} do not fit together")),
        })
        .collect()
}

/// `f` of each pair.
pub(super) fn pairs(a: &Array, b: &Array, f: impl Fn(f64, f64) -> f64) -> Result<Array, String> {
    if a.shape == b.shape {
        room(a.data.len())?;
        let data = a.data.iter().zip(&b.data).map(|(x, y)| f(*x, *y)).collect();
        return Ok(Array { shape: a.shape.clone(), data });
    }
    let shape = broadcast(&a.shape, &b.shape)?;
    let total = count(&shape)?;
    room(total)?;
    let strides = |s: &[usize]| -> Vec<usize> {
        let mut out = vec![0; shape.len()];
        let mut step = 1;
        for (i, d) in s.iter().enumerate().rev() {
            out[i + shape.len() - s.len()] = if *d == 1 { 0 } else { step };
            step *= d;
        }
        out
    };
    let (by_a, by_b) = (strides(&a.shape), strides(&b.shape));
    let mut data = Vec::with_capacity(total);
    let mut at = vec![0usize; shape.len()];
    let (mut i, mut j) = (0usize, 0usize);
    for _ in 0..total {
        data.push(f(a.data[i], b.data[j]));
        for axis in (0..shape.len()).rev() {
            at[axis] += 1;
            i += by_a[axis];
            j += by_b[axis];
            if at[axis] < shape[axis] {
                break;
            }
            i -= by_a[axis] * shape[axis];
            j -= by_b[axis] * shape[axis];
            at[axis] = 0;
        }
    }
    Ok(Array { shape, data })
}

/// A number as an array without axes.
pub(super) fn scalar(v: &Value) -> Option<Array> {
    let f = match v {
        Value::Int(n) => *n as f64,
        Value::Float(f) => *f,
        Value::Big(n) => number::big_to_float(&n.0),
        Value::Bool(b) => f64::from(u8::from(*b)),
        _ => return None,
    };
    Some(Array { shape: Vec::new(), data: vec![f] })
}

fn operate(op: Arith, a: &Array, b: &Array) -> Result<Value, String> {
    if matches!(op, Arith::Div | Arith::FloorDiv | Arith::Rem) && b.data.contains(&0.0) {
        return Err(if op == Arith::Rem { "Modulo by zero" } else { "Division by zero" }.to_owned());
    }
    let f: fn(f64, f64) -> f64 = match op {
        Arith::Add => |x, y| x + y,
        Arith::Sub => |x, y| x - y,
        Arith::Mul => |x, y| x * y,
        Arith::Div => |x, y| x / y,
        Arith::FloorDiv => |x, y| (x / y).floor(),
        Arith::Rem => float_mod,
        Arith::Pow => f64::powf,
    };
    pairs(a, b, f).map(Array::value)
}

impl Foreign for Array {
    fn type_name(&self) -> &'static str {
        "array"
    }
    fn render(&self) -> String {
        let mut out = String::new();
        write(&self.shape, &self.data, &mut out);
        out
    }
    fn truthy(&self) -> bool {
        !self.data.is_empty()
    }
    fn bytes(&self) -> usize {
        self.data.capacity() * 8 + self.shape.len() * 8
    }
    fn equals(&self, other: &dyn Foreign) -> bool {
        other.any().downcast_ref::<Self>().is_some_and(|o| o.shape == self.shape && o.data == self.data)
    }
    fn arith(&self, op: Arith, other: &Value, swapped: bool) -> Option<Result<Value, String>> {
        let owned;
        let other = match other.as_foreign::<Self>() {
            Some(array) => array,
            None => {
                owned = scalar(other)?;
                &owned
            }
        };
        Some(if swapped { operate(op, other, self) } else { operate(op, self, other) })
    }
    fn index(&self, index: &Value) -> Option<Result<Value, String>> {
        let n = *self.shape.first()?;
        Some(place(index, n).map(|i| self.row(i)))
    }
    fn length(&self) -> Option<usize> {
        self.shape.first().copied()
    }
    fn data(&self) -> Option<Value> {
        Some(self.lists())
    }
    fn any(&self) -> &dyn Any {
        self
    }
}

/// An index within an axis, negatives from its end.
pub(super) fn place(index: &Value, n: usize) -> Result<usize, String> {
    let i = match index {
        Value::Int(i) => *i,
        Value::Float(f) if f.fract() == 0.0 && f.abs() < 9e15 => *f as i64,
        other => return Err(format!("index must be an integer, got {}", crate::vm::render::inside(other))),
    };
    let at = if i < 0 { i.saturating_add(n as i64) } else { i };
    usize::try_from(at)
        .ok()
        .filter(|at| *at < n)
        .ok_or_else(|| format!("Index {i} out of bounds (array length {n})"))
}
