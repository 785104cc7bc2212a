//! Linear algebra on arrays with one or two axes, and what statistics makes of it.
//!
//! Source: the decompositions are nalgebra's; its iterations are bounded here.

use super::super::complex::complex;
use super::super::{Args, Builtin, Cost, Ctx};
use super::array::{Array, room};
use super::taken;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use nalgebra::{DMatrix, DVector, SVD, Schur, SymmetricEigen};

pub(in super::super) const TABLE: &[Builtin] = &[
    Builtin::new("matmul", &["a", "b"], 2, matmul).cost(Cost::Own),
    Builtin::new("dot", &["a", "b"], 2, matmul).cost(Cost::Own),
    Builtin::new("solve", &["a", "b"], 2, solve).cost(Cost::Own),
    Builtin::new("det", &["a"], 1, |c, a| Ok(Value::Float(square(c, a)?.determinant()))).cost(Cost::Own),
    Builtin::new("inv", &["a"], 1, |c, a| match square(c, a)?.try_inverse() {
        // A negative zero is as good as zero, and reads worse.
        Some(m) => Ok(array(&m).map(|x| x + 0.0).value()),
        None => Err(raised("inv: the matrix is singular")),
    })
    .cost(Cost::Own),
    Builtin::new("norm", &["a"], 1, |c, a| {
        let a = taken(c, a, 0)?;
        Ok(Value::Float(a.data.iter().map(|x| x * x).sum::<f64>().sqrt()))
    })
    .cost(Cost::Own),
    Builtin::new("trace", &["a"], 1, |c, a| {
        let m = matrix(c, a, 0)?;
        // An empty sum of doubles is a negative zero otherwise.
        Ok(Value::Float((0..m.nrows().min(m.ncols())).fold(0.0, |sum, i| sum + m[(i, i)])))
    })
    .cost(Cost::Own),
    Builtin::new("eig", &["a"], 1, eig).cost(Cost::Own),
    Builtin::new("svd", &["a"], 1, svd).cost(Cost::Own),
    Builtin::new("lstsq", &["a", "b"], 2, lstsq).cost(Cost::Own),
    Builtin::new("corr", &["x", "y"], 1, |c, a| covariance(c, a, true)).cost(Cost::Own),
    Builtin::new("cov", &["x", "y"], 1, |c, a| covariance(c, a, false)).cost(Cost::Own),
    Builtin::new("polyfit", &["x", "y", "degree"], 3, polyfit).cost(Cost::Own),
    Builtin::new("polyval", &["coefficients", "x"], 2, polyval).cost(Cost::Own),
];

/// Steps of an iterative decomposition for each row.
const STEPS: usize = 100;

fn two_axes(args: &Args<'_>, a: &Array) -> Result<(usize, usize), Fault> {
    match a.shape[..] {
        [rows, columns] => Ok((rows, columns)),
        _ => Err(raised(format!("{} expects a matrix (2 axes), got {} axes", args.name, a.shape.len()))),
    }
}

fn matrix(ctx: &mut Ctx<'_>, args: &Args<'_>, i: usize) -> Result<DMatrix<f64>, Fault> {
    let a = taken(ctx, args, i)?;
    let (rows, columns) = two_axes(args, &a)?;
    Ok(DMatrix::from_row_slice(rows, columns, &a.data))
}

/// A square matrix, its cubic work paid.
fn square(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<DMatrix<f64>, Fault> {
    let m = matrix(ctx, args, 0)?;
    if m.nrows() != m.ncols() || m.nrows() == 0 {
        return Err(raised(format!(
            "{} expects a square matrix, got {}x{}",
            args.name,
            m.nrows(),
            m.ncols()
        )));
    }
    cubic(ctx, m.nrows(), m.ncols(), m.nrows())?;
    Ok(m)
}

fn cubic(ctx: &mut Ctx<'_>, a: usize, b: usize, c: usize) -> Result<(), Fault> {
    ctx.charge((a as u64).saturating_mul(b as u64).saturating_mul(c as u64) / 8 + 1)
}

fn finite(args: &Args<'_>, m: &DMatrix<f64>) -> Result<(), Fault> {
    if m.iter().all(|x| x.is_finite()) {
        Ok(())
    } else {
        Err(raised(format!("{} expects finite numbers", args.name)))
    }
}

fn array(m: &DMatrix<f64>) -> Array {
    Array { shape: vec![m.nrows(), m.ncols()], data: m.transpose().as_slice().to_vec() }
}

/// The product of matrices, of vectors, or of one of each.
fn matmul(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (a, b) = (taken(ctx, args, 0)?, taken(ctx, args, 1)?);
    let (rows, inner) = match a.shape[..] {
        [n] => (1, n),
        [r, n] => (r, n),
        _ => return Err(raised(format!("{} expects arrays with 1 or 2 axes", args.name))),
    };
    let (n, columns) = match b.shape[..] {
        [n] => (n, 1),
        [n, c] => (n, c),
        _ => return Err(raised(format!("{} expects arrays with 1 or 2 axes", args.name))),
    };
    if n != inner {
        return Err(raised(format!(
            "{}: shapes {:?} and {:?} do not fit together",
            args.name, a.shape, b.shape
        )));
    }
    cubic(ctx, rows, columns, inner)?;
    room(rows.saturating_mul(columns))?;
    let product =
        DMatrix::from_row_slice(rows, inner, &a.data) * DMatrix::from_row_slice(inner, columns, &b.data);
    Ok(match (a.shape.len(), b.shape.len()) {
        (1, 1) => Value::Float(product[(0, 0)]),
        (2, 2) => array(&product).value(),
        _ => Array::flat(product.as_slice().to_vec()).value(),
    })
}

/// The right side as a matrix, and whether it was a vector.
fn right(ctx: &mut Ctx<'_>, args: &Args<'_>, rows: usize) -> Result<(DMatrix<f64>, bool), Fault> {
    let b = taken(ctx, args, 1)?;
    let columns = match b.shape[..] {
        [n] if n == rows => 1,
        [n, c] if n == rows => c,
        _ => {
            return Err(raised(format!(
                "{}: the right side {:?} does not fit {rows} rows",
                args.name, b.shape
            )));
        }
    };
    Ok((DMatrix::from_row_slice(rows, columns, &b.data), b.shape.len() == 1))
}

fn given(m: &DMatrix<f64>, vector: bool) -> Value {
    if vector { Array::flat(m.as_slice().to_vec()).value() } else { array(m).value() }
}

fn solve(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let a = square(ctx, args)?;
    let (b, vector) = right(ctx, args, a.nrows())?;
    match a.lu().solve(&b) {
        Some(x) => Ok(given(&x, vector)),
        None => Err(raised("solve: the matrix is singular")),
    }
}

fn eig(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let m = square(ctx, args)?;
    finite(args, &m)?;
    let n = m.nrows();
    cubic(ctx, n, n, 10 * n)?;
    let failed = || raised("eig: the iteration does not converge");
    if m == m.transpose() {
        let e = SymmetricEigen::try_new(m, f64::EPSILON, STEPS * n).ok_or_else(failed)?;
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|a, b| e.eigenvalues[*a].total_cmp(&e.eigenvalues[*b]));
        let values = order.iter().map(|i| e.eigenvalues[*i]).collect();
        let mut vectors = e.eigenvectors.select_columns(&order);
        signs(&mut vectors);
        return Ok(Value::record([
            ("values", Array::flat(values).value()),
            ("vectors", array(&vectors).value()),
        ]));
    }
    let schur = Schur::try_new(m, f64::EPSILON, STEPS * n).ok_or_else(failed)?;
    let mut values: Vec<(f64, f64)> = schur.complex_eigenvalues().iter().map(|c| (c.re, c.im)).collect();
    values.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let values = if values.iter().all(|v| v.1 == 0.0) {
        Array::flat(values.into_iter().map(|v| v.0).collect()).value()
    } else {
        Value::list(values.into_iter().map(|(re, im)| complex(re, im)).collect())
    };
    Ok(Value::record([("values", values), ("vectors", Value::Nothing)]))
}

/// The first part of each column that isn't small is made positive: a direction has no sign of its own.
fn signs(m: &mut DMatrix<f64>) {
    for mut column in m.column_iter_mut() {
        if column.iter().find(|x| x.abs() > 1e-12).is_some_and(|x| *x < 0.0) {
            column.neg_mut();
        }
    }
}

fn decomposed(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<SVD<f64, nalgebra::Dyn, nalgebra::Dyn>, Fault> {
    let m = matrix(ctx, args, 0)?;
    finite(args, &m)?;
    let (rows, columns) = m.shape();
    if rows == 0 || columns == 0 {
        return Err(raised(format!("{} expects a matrix that isn't empty", args.name)));
    }
    cubic(ctx, rows, columns, 10 * rows.min(columns))?;
    SVD::try_new(m, true, true, f64::EPSILON, STEPS * rows.max(columns))
        .ok_or_else(|| raised(format!("{}: the iteration does not converge", args.name)))
}

fn svd(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let d = decomposed(ctx, args)?;
    let (Some(mut u), Some(mut vt)) = (d.u, d.v_t) else { return Err(raised("svd: no vectors")) };
    for i in 0..u.ncols() {
        if u.column(i).iter().find(|x| x.abs() > 1e-12).is_some_and(|x| *x < 0.0) {
            u.column_mut(i).neg_mut();
            vt.row_mut(i).neg_mut();
        }
    }
    Ok(Value::record([
        ("u", array(&u).value()),
        ("s", Array::flat(d.singular_values.as_slice().to_vec()).value()),
        ("vt", array(&vt).value()),
    ]))
}

fn lstsq(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let d = decomposed(ctx, args)?;
    let rows = d.u.as_ref().map_or(0, DMatrix::nrows);
    let (b, vector) = right(ctx, args, rows)?;
    let small = d.singular_values.max() * f64::EPSILON * rows.max(2) as f64;
    let x = d.solve(&b, small).map_err(|e| raised(format!("lstsq: {e}")))?;
    Ok(given(&x, vector))
}

/// Sample covariance of the rows; of two lists, one number.
fn covariance(ctx: &mut Ctx<'_>, args: &mut Args<'_>, scaled: bool) -> Result<Value, Fault> {
    let x = taken(ctx, args, 0)?;
    let (rows, n, single) = if args.optional(1).is_some() {
        let y = taken(ctx, args, 1)?;
        if x.shape.len() != 1 || x.shape != y.shape {
            return Err(raised(format!("{} expects two lists of one length", args.name)));
        }
        (vec![x.data.clone(), y.data], x.data.len(), true)
    } else {
        let (r, n) = two_axes(args, &x)?;
        ((0..r).map(|i| x.data[i * n..(i + 1) * n].to_vec()).collect(), n, false)
    };
    if n < 2 {
        return Err(raised(format!("{} needs at least 2 values, got {n}", args.name)));
    }
    cubic(ctx, rows.len(), rows.len(), n * 8)?;
    room(rows.len().saturating_mul(rows.len()))?;
    let centred: Vec<Vec<f64>> = rows
        .iter()
        .map(|row| {
            let mean = row.iter().sum::<f64>() / n as f64;
            row.iter().map(|v| v - mean).collect()
        })
        .collect();
    let k = centred.len();
    let mut data = vec![0.0; k * k];
    for i in 0..k {
        for j in 0..k {
            let sum: f64 = centred[i].iter().zip(&centred[j]).map(|(a, b)| a * b).sum();
            data[i * k + j] = sum / (n - 1) as f64;
        }
    }
    if scaled {
        let spread: Vec<f64> = (0..k).map(|i| data[i * k + i].sqrt()).collect();
        for i in 0..k {
            for j in 0..k {
                let by = spread[i] * spread[j];
                data[i * k + j] =
                    if i == j && by > 0.0 { 1.0 } else { (data[i * k + j] / by).clamp(-1.0, 1.0) };
            }
        }
    }
    if single {
        return Ok(Value::Float(data[1]));
    }
    Ok(Array { shape: vec![k, k], data }.value())
}

/// Coefficients of the best polynomial, highest power first.
fn polyfit(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (x, y) = (taken(ctx, args, 0)?, taken(ctx, args, 1)?);
    let degree = args.int(2, "degree")?;
    if x.shape.len() != 1 || x.shape != y.shape {
        return Err(raised("polyfit expects two lists of one length"));
    }
    let n = x.data.len();
    let Some(degree) = usize::try_from(degree).ok().filter(|d| *d < n && *d <= 100) else {
        return Err(raised(format!(
            "polyfit: degree must be from 0 to {}, got {degree}",
            n.saturating_sub(1).min(100)
        )));
    };
    let k = degree + 1;
    let mut m = DMatrix::from_fn(n, k, |i, j| x.data[i].powi((degree - j) as i32));
    let b = DVector::from_vec(y.data);
    finite(args, &m)?;
    cubic(ctx, n, k, 10 * k)?;
    // Columns of one length make the powers comparable.
    let lengths: Vec<f64> =
        m.column_iter().map(|c| c.norm()).map(|l| if l > 0.0 { l } else { 1.0 }).collect();
    for (j, length) in lengths.iter().enumerate() {
        m.column_mut(j).unscale_mut(*length);
    }
    let d = SVD::try_new(m, true, true, f64::EPSILON, STEPS * n)
        .ok_or_else(|| raised("polyfit: the iteration does not converge"))?;
    let solved = d.solve(&b, f64::EPSILON * n as f64).map_err(|e| raised(format!("polyfit: {e}")))?;
    Ok(Array::flat(solved.iter().zip(&lengths).map(|(c, l)| c / l).collect()).value())
}

fn polyval(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (c, x) = (taken(ctx, args, 0)?, taken(ctx, args, 1)?);
    ctx.charge((c.data.len() as u64).saturating_mul(x.data.len() as u64) / 4)?;
    let y = x.map(|x| c.data.iter().fold(0.0, |sum, c| sum * x + c));
    Ok(if y.shape.is_empty() { Value::Float(y.data[0]) } else { y.value() })
}
